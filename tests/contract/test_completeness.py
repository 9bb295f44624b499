"""Nobody adds a verb, a feed or a look without a contract test. Views and migrations are found by their tests."""

import ast

import pytest
from contract import completeness


def test_every_function_that_runs_sql_has_a_contract_test():
    assert completeness.missing() == []


def test_the_verbs_are_found():
    found = {name for _, name in completeness.verbs()}
    assert {"insert_jobs", "newest_recorded", "why", "head_stage", "LiveQueues.refresh"} <= found
    assert "key_of" not in found, "it runs no SQL"


@pytest.mark.parametrize(
    ("text", "is_used"),
    [
        ("from rankd.store.record.node import strays\nstrays(c)", True),
        ("from rankd.store.record.node import strays as s\nf(s)", True),
        ("from rankd.store.record import node\nnode.strays(c)", True),
        ("from rankd.store.record.node import strays", False),
        ("from other import strays\nstrays(c)", False),
    ],
)
def test_a_verb_counts_as_tested_only_if_it_is_used(text, is_used):
    assert (("rankd.store.record.node", "strays") in completeness.used_by(ast.parse(text))) == is_used
