"""Whatever the tables hold, a copy into the other database and back holds the same, bit for bit."""

import asyncio
import tempfile
from pathlib import Path

from contract.engine import Sqlite
from contract.world import migrate
from effort import effort
from hypothesis import given, settings
from hypothesis import strategies as st
from postgres_server import server
from sqlalchemy import Boolean, Float, LargeBinary, Text

from rankd.store.engine.bulk import bulk_insert
from rankd.store.engine.url import open_database
from rankd.store.record.site_copy import copy_site, sum_of
from rankd.store.schema.table import metadata

INT64 = st.one_of(st.integers(0, 9), st.integers(-(2**63), 2**63 - 1))
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8),
    st.sampled_from(["", "\\N", "\\.", "\t\n\r\\", "a'b\"c", '{"a": "\\u0000"}', "NaN", "\U0001f600", "é", "é"]),
)
FLOATS = st.one_of(st.floats(allow_nan=False), st.sampled_from([-0.0, 5e-324, 1e308, float("inf"), 0.1]))


def values(column):
    kinds = ((Boolean, st.integers(0, 1)), (Float, FLOATS), (Text, TEXTS), (LargeBinary, st.binary(max_size=9)))
    of_kind = next((drawn for kind, drawn in kinds if isinstance(column.type, kind)), INT64)
    if column.name == "id":
        of_kind = st.integers(1, 2**62)
    return of_kind if column.primary_key or not column.nullable else st.none() | of_kind


@st.composite
def sites(draw):
    """Rows of some tables; no two have the same key."""
    chosen = draw(st.lists(st.sampled_from(metadata.sorted_tables), min_size=1, max_size=6, unique=True))
    rows = {}
    for table in chosen:
        places = [place for place, column in enumerate(table.columns) if column.primary_key]
        row = st.tuples(*map(values, table.columns))
        rows[table] = draw(st.lists(row, max_size=3, unique_by=lambda row, at=places: tuple(row[i] for i in at)))
    return rows


def copied(source, target):
    with source._writing.begin() as one, target._writing.begin() as other:
        return copy_site(one, other, lambda *_: None)


def empty(database):
    with database._writing.begin() as connection:
        for table in metadata.sorted_tables:
            connection.execute(table.delete())
        of_ids = "sqlite_sequence" if connection.dialect.name == "sqlite" else "last_ids"
        connection.exec_driver_sql(f"DELETE FROM {of_ids}")


async def round_trips(examples, url, directory):
    async with (
        Sqlite().open_copy(migrate, Path(tempfile.mkdtemp(dir=directory))) as first,
        open_database(url, directory=directory, durable=False) as second,
        Sqlite().open_copy(migrate, Path(tempfile.mkdtemp(dir=directory))) as third,
    ):
        await migrate(second)

        @settings(max_examples=examples, deadline=None)
        @given(sites())
        def round_trip(site):
            for database in (first, second, third):
                empty(database)
            with first._writing.begin() as connection:
                for table, rows in site.items():
                    bulk_insert(connection, table.name, [column.name for column in table.columns], rows)
                wanted = [sum_of(connection, table) for table in metadata.sorted_tables]
            assert copied(first, second) == wanted
            assert copied(second, third) == wanted
            assert sum(one.rows for one in wanted) == sum(map(len, site.values()))

        round_trip()


def test_any_rows_survive_a_copy_into_postgresql_and_back(tmp_path):
    name = server().make()
    asyncio.run(round_trips(effort(12, 40), server().url(name), tmp_path))
    server().drop(name)
