"""A changed key in one line."""

import pytest

from rankd.config.change import Change


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        (Change(file="rankd.toml", key="priority.weights.age", old="1000", new="2000"),
         "priority.weights.age 1000 -> 2000"),
        (Change(file="queues.yaml", key="root.a", new=""), "root.a added"),
        (Change(file="queues.yaml", key="root.a.max", new="5"), "root.a.max added: 5"),
        (Change(file="queues.yaml", key="root.a", old=""), "root.a removed"),
        (Change(file="queues.yaml", key="root.a.max", old="5"), "root.a.max removed: 5"),
        (Change(file="queues.yaml"), "queues.yaml: other text, same content"),
    ],
)  # fmt: skip
def test_a_change_says_what_was_and_what_is(change, shown):
    assert str(change) == shown
