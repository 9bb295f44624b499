"""Trackable resources. The weights and the sum are the worked example of slurm.conf's manual (TRESBillingWeights)."""

import pytest

from rankd.core.slurm.tres import amount_of, parse_tres, per_unit, resource_of

WEIGHTS = "CPU=1.0,Mem=0.25G,GRES/gpu=2.0"


def test_the_published_job_of_one_core_and_8_gib_is_billed_3():
    used = {"vcore": 1, "memory": 8 * 2**30, "gpu": 0}
    billed = 0.0
    for tres, (weight, suffix) in parse_tres(WEIGHTS).items():
        resource = resource_of(tres)
        billed += used[resource] * per_unit(resource, weight, suffix)
    assert billed == 3.0


def test_memory_without_a_suffix_is_weighted_per_mebibyte():
    assert per_unit("memory", 1.0, "") == per_unit("memory", 1.0, "M")
    assert per_unit("gpu", 1.0, "") == 1.0


def test_amounts_are_whole_and_memory_is_in_mebibytes():
    assert amount_of("vcore", 64, "") == 64
    assert amount_of("memory", 100, "") == 100 * 2**20
    assert amount_of("memory", 1.5, "G") == 3 * 2**29
    assert amount_of("gpu:a100", 0.5, "") is None


@pytest.mark.parametrize("text", ["CPU", "CPU=", "CPU=x", "=1", "CPU=1.0X", "CPU=1,Mem"])
def test_an_entry_that_cannot_be_read_is_named(text):
    with pytest.raises(ValueError, match="is not a TRES with a number"):
        parse_tres(text)


@pytest.mark.parametrize("tres", ["node", "billing", "energy", "license/matlab", "gres/"])
def test_what_rankd_does_not_count_has_no_resource(tres):
    assert resource_of(tres) is None
