"""Statements written for SQLite, as PostgreSQL gets them."""

import pytest

from rankd.store.engine.postgres_text import for_postgres
from rankd.store.engine.word import (
    IN_NUMBERS,
    IN_TEXTS,
    JOIN_IN_ORDER,
    VALUES,
    after,
    elements,
    in_cores,
    joined,
    number_in,
    piece,
    read_by,
    smaller,
    text_at,
    type_of,
    unindexed,
    value_at,
    whole,
)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("SELECT ?, '?' FROM t WHERE a = ?", "SELECT $1, '?' FROM t WHERE a = $2"),
        (f"id {IN_NUMBERS}", "id IN (SELECT value FROM rankd_numbers($1))"),
        (f"name {IN_TEXTS}", "name IN (SELECT value FROM rankd_texts($1))"),
        (elements("n.devices", "e", VALUES), "rankd_values(n.devices) e"),
        (f"jobs j {read_by('jobs_name')} WHERE 1 = 1", "jobs j  WHERE 1 = 1"),
        (f"a {JOIN_IN_ORDER} b ON a.x = b.x", "a  JOIN b ON a.x = b.x"),
        (unindexed("e.job_id"), "e.job_id"),
        (text_at("d.value", "$.type"), "rankd_text_at(d.value, '$.type')"),
        (type_of(value_at("d.value", "$.job")), "rankd_type_of(rankd_value_at(d.value, '$.job'))"),
        (number_in("ids", "? - first"), "CAST(CAST(ids AS json) ->> CAST(($1 - first) AS integer) AS BIGINT)"),
        (piece("c.ranks", "(id - 1) * 8", 8), "CAST(rankd_piece(c.ranks, (id - 1) * 8, 8) AS BIGINT)"),
        (whole("points"), "CAST(trunc(points) AS BIGINT)"),
        (smaller("1", whole("(a)")), "least(1, CAST(trunc((a)) AS BIGINT))"),
        (joined("'a (b' || c", "; ", "d.key"), "string_agg('a (b' || c, '; ' ORDER BY d.key)"),
        (after("name", "_"), "split_part(name, '_', 2)"),
        (in_cores("j.resources"), "rankd_in_cores(j.resources)"),
    ],
)
def test_a_word_is_written_in_postgresql_s_way(text, written):
    assert for_postgres(text) == written
