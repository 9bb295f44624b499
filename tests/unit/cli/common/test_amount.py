"""Amounts as Slurm's commands print them."""

import pytest

from rankd.cli.common.amount import gpus_of, shown_bytes, shown_gpus, shown_gres, shown_tres, times


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


def test_amounts_of_a_job_as_sacct_writes_them():
    amounts = {"vcore": 8, "memory": 2**34, "gpu": 4, "gpu:a100": 4, "licence": 2}
    assert shown_tres(8, 2, amounts) == "cpu=8,gres/gpu=4,gres/gpu:a100=4,gres/licence=2,mem=16G,node=2"
    assert shown_tres(0.5, 1, {"gpu": 0}) == "cpu=0.5,node=1"


def test_gpus_are_counted_once_with_and_without_their_models():
    assert (gpus_of({"gpu": 4, "gpu:a100": 4}), gpus_of({"gpu:a100": 1, "gpu:v100": 2}), gpus_of({})) == (4, 3, 0)
    assert shown_gpus({"gpu": 4, "gpu:a100": 4}) == "a100:4"
    assert shown_gpus({"gpu": 2}) == "2"
    assert times({"gpu": 2, "memory": None}, 2) == {"gpu": 4}
