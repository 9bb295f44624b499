"""What PostgreSQL gets besides tables and views: the functions of :mod:`rankd.store.engine.postgres_text`, and ids.

Ids are dense, in commit order, and never used again. So they don't come from sequences, which count on when a
transaction fails. Writers have the lock of :mod:`rankd.store.engine.postgres`. Under it, the largest id of a table is
the larger of the one that the table has, and the one that ``last_ids`` has: that of the last row that was deleted, or
that got its id from here.

PostgreSQL stores no NUL character. The driver writes U+FFFD in its place, and ``rankd_no_nul`` reads JSON's escape so.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, MetaData, Table

from rankd.core.errors import Unavailable

_FUNCTIONS = (
    r"""rankd_no_nul(document text) RETURNS text AS $$
SELECT CASE WHEN strpos(document, '\u0000') = 0 THEN document
ELSE regexp_replace(document, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g') END $$""",
    """rankd_numbers(document text) RETURNS TABLE (key bigint, value bigint) AS $$
SELECT o - 1, v::bigint FROM json_array_elements_text(document::json) WITH ORDINALITY t (v, o) $$""",
    """rankd_texts(document text) RETURNS TABLE (key bigint, value text) AS $$
SELECT o - 1, v COLLATE "C" FROM json_array_elements_text(rankd_no_nul(document)::json) WITH ORDINALITY t (v, o) $$""",
    """rankd_values(document text) RETURNS TABLE (key bigint, value text) AS $$
SELECT o - 1, v::text FROM json_array_elements(document::json) WITH ORDINALITY t (v, o) $$""",
    """rankd_members(document text) RETURNS TABLE (id bigint, key text, value double precision) AS $$
SELECT o, k COLLATE "C", v::double precision
FROM json_each_text(rankd_no_nul(document)::json) WITH ORDINALITY t (k, v, o) $$""",
    """rankd_value_at(document text, path text) RETURNS jsonb AS $$
SELECT nullif(jsonb_path_query_first(rankd_no_nul(document)::jsonb, path::jsonpath), 'null'::jsonb) $$""",
    """rankd_text_at(document text, path text) RETURNS text AS $$
SELECT (jsonb_path_query_first(rankd_no_nul(document)::jsonb, path::jsonpath) #>> '{}') COLLATE "C" $$""",
    """rankd_number_at(document text, path text) RETURNS bigint AS $$
SELECT (jsonb_path_query_first(rankd_no_nul(document)::jsonb, path::jsonpath) #>> '{}')::bigint $$""",
    """rankd_type_of(value jsonb) RETURNS text AS $$
SELECT CASE jsonb_typeof(value) WHEN 'string' THEN 'text' ELSE jsonb_typeof(value) END $$""",
    """rankd_without(document text, path text) RETURNS text AS $$
SELECT '{' || coalesce(string_agg(to_json(key)::text || ':' || value::text, ',' ORDER BY o), '') || '}'
FROM json_each(document::json) WITH ORDINALITY t (key, value, o) WHERE '$.' || key <> path AND document IS NOT NULL
HAVING document IS NOT NULL $$""",
    r"""rankd_in_cores(document text) RETURNS text AS $$
SELECT CASE WHEN v IS NULL THEN document ELSE regexp_replace(document, '("vcore"\s*:\s*)-?[0-9]+',
    '\1' || (v / 1000.0::float8) || CASE WHEN v % 1000 = 0 THEN '.0' ELSE '' END) END
FROM (SELECT (document::json ->> 'vcore')::bigint) t (v) $$""",
    """rankd_piece(numbers bytea, start bigint, width bigint) RETURNS text AS $$
SELECT nullif(btrim(convert_from(substr(numbers, start::integer, width::integer), 'SQL_ASCII')), '') $$""",
    """rankd_least(one double precision, other double precision) RETURNS double precision AS $$
SELECT CASE WHEN one IS NULL OR other IS NULL THEN NULL WHEN one <= other THEN one ELSE other END $$""",
    """rankd_least(VARIADIC numbers double precision[]) RETURNS double precision AS $$
SELECT CASE WHEN bool_or(v IS NULL) THEN NULL ELSE min(v) END FROM unnest(numbers) v $$""",
    """rankd_greatest(VARIADIC numbers double precision[]) RETURNS double precision AS $$
SELECT CASE WHEN bool_or(v IS NULL) THEN NULL ELSE max(v) END FROM unnest(numbers) v $$""",
    """rankd_greatest(one double precision, other double precision) RETURNS double precision AS $$
SELECT CASE WHEN one IS NULL OR other IS NULL THEN NULL WHEN one >= other THEN one ELSE other END $$""",
)

_LAST_IDS = 'CREATE TABLE IF NOT EXISTS last_ids (name text COLLATE "C" PRIMARY KEY, id bigint NOT NULL)'
_NEXT_ID = """CREATE OR REPLACE FUNCTION rankd_next_id(of text) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE newest bigint;
BEGIN
    EXECUTE format('SELECT coalesce(max(id), 0) FROM %I', of) INTO newest;
    INSERT INTO last_ids AS l VALUES (of, newest + 1)
    ON CONFLICT (name) DO UPDATE SET id = greatest(l.id, newest) + 1 RETURNING id INTO newest;
    RETURN newest;
END $$"""
_KEEP_LAST_ID = """CREATE OR REPLACE FUNCTION rankd_keep_last_id() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO last_ids AS l SELECT TG_TABLE_NAME, max(id) FROM gone HAVING max(id) IS NOT NULL
    ON CONFLICT (name) DO UPDATE SET id = greatest(l.id, excluded.id);
    RETURN NULL;
END $$"""

_UNCOMPRESSED = {
    "ranking_chunks": ("ids", "priorities"),
    "rank_chunks": ("ranks",),
    "ranking_leaves": ("ids", "priorities", "ranks"),
}
"""Columns with the order of a generation. To compress a million jobs takes as long as all the rest of storing them. And
views read a few bytes: a compressed value would be unpacked as a whole for each."""
_EXTERNAL = "e"
_ROOMY = {"ranking_head": 50}
"""How full the pages of a table are made, in percent. Up to 10,000 ranks change with a generation. With room in their
pages, this takes the server a third of the time: 12 ms, in which nobody else can write."""
_OPTIONS = "SELECT coalesce(array_to_string(reloptions, ','), '') FROM pg_catalog.pg_class WHERE oid = to_regclass(?)"
_STORAGE = """SELECT attrelid::regclass::text || '.' || attname, attstorage::text FROM pg_catalog.pg_attribute
WHERE attrelid = ANY (SELECT to_regclass(name) FROM unnest(CAST(? AS text[])) t (name)) AND attnum > 0"""


def before_tables(connection: Connection) -> None:
    """Make what the declared tables need.

    Raises:
        Unavailable: ``wrong_encoding``: the database stores no Unicode.
    """
    if (encoding := connection.exec_driver_sql("SHOW server_encoding").scalar_one()) != "UTF8":
        message = f"the database has the encoding {encoding}, and texts need UTF8: make another one, by"
        raise Unavailable("wrong_encoding", f"{message} CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0")
    connection.exec_driver_sql(_LAST_IDS)
    connection.exec_driver_sql(_NEXT_ID)
    connection.exec_driver_sql(_KEEP_LAST_ID)
    for function in _FUNCTIONS:
        kind = "STABLE" if "rankd_without" in function else "IMMUTABLE"
        connection.exec_driver_sql(f"CREATE OR REPLACE FUNCTION {function} LANGUAGE sql {kind} PARALLEL SAFE")


def after_tables(connection: Connection, metadata: MetaData) -> None:
    """Make what belongs to the declared tables: the last ids, and how orders are kept."""
    for table in metadata.tables.values():
        if _never_reuses(table):
            trigger = f"CREATE OR REPLACE TRIGGER keep_last_id AFTER DELETE ON {table.name}"
            connection.exec_driver_sql(
                f"{trigger} REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION rankd_keep_last_id()"
            )
    storage = dict(map(tuple, connection.exec_driver_sql(_STORAGE, (list(_UNCOMPRESSED),))))
    for name, columns in _UNCOMPRESSED.items():
        for column in columns:
            if storage[f"{name}.{column}"] != _EXTERNAL:
                connection.exec_driver_sql(f"ALTER TABLE {name} ALTER COLUMN {column} SET STORAGE EXTERNAL")
    for name, percent in _ROOMY.items():
        option = f"fillfactor={percent}"
        if option not in connection.exec_driver_sql(_OPTIONS, (name,)).scalar_one():
            connection.exec_driver_sql(f"ALTER TABLE {name} SET ({option})")


def _never_reuses(table: Table) -> bool:
    return bool(table.dialect_options["sqlite"]["autoincrement"])


def same_views(connection: Connection, views: Mapping[str, str]) -> bool:
    """Whether the database has exactly these views. The driver reads them also inside :func:`.bulk.unread`."""
    from rankd.store.engine.postgres_message import answer  # noqa: PLC0415 - psycopg is optional

    found = "SELECT relname, obj_description(oid, 'pg_class') FROM pg_class WHERE relkind = 'v' AND relname = ANY (?)"
    driver: Any = connection.connection.driver_connection
    marks = dict(answer(driver, found, (list(views),)))
    return marks == {name: _mark(statement) for name, statement in views.items()}


def mark_views(connection: Connection, views: Mapping[str, str]) -> None:
    """Note of each view which statement made it, for :func:`same_views`."""
    for name, statement in views.items():
        connection.exec_driver_sql(f"COMMENT ON VIEW \"{name}\" IS '{_mark(statement)}'")


def _mark(statement: str) -> str:
    return f"rankd {sha256(statement.encode()).hexdigest()}"
