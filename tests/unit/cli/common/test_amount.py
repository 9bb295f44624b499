"""Amounts as Slurm's commands print them."""

import pytest

from rankd.cli.common.amount import shown_bytes, shown_gres


@pytest.mark.parametrize(
    ("amounts", "shown"),
    [
        ({"vcore": 4, "memory": 2**30}, ""),
        ({"gpu": 2}, "gpu:2"),
        ({"gpu": 3, "gpu:a100": 2, "gpu:v100": 1, "licence": 0, "tape": 1.5}, "gpu:a100:2,gpu:v100:1,tape:1.5"),
    ],
)
def test_generic_resources_are_what_is_not_a_core_or_memory(amounts, shown):
    assert shown_gres(amounts) == shown


def test_memory_is_in_the_largest_unit_that_it_fills():
    assert [shown_bytes(amount) for amount in (0, 1023, 2**20, 3 * 2**39)] == ["0", "1023", "1M", "1.5T"]
