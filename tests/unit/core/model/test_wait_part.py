"""What a job waited for: causes of reasons and records, and how time before a cause is known counts."""

import pytest

from rankd.core.admission.dependency import BEGIN_TIME, DEPENDENCY, NEVER
from rankd.core.model.job import State
from rankd.core.model.wait_part import Spell, WaitCause, Waiting, cause_of_reason, counted

NEW = {
    "state": State.PENDING, "held": False, "urgency": 16, "blocked_by": None, "limited": False, "until": 100.0,
    "parts": {},
}  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("resources", WaitCause.RESOURCES),
        ("no node fits", WaitCause.RESOURCES),
        ("reserved", WaitCause.RESERVED),
        ("queue quota", WaitCause.QUOTA),
        ("user limit", WaitCause.QUOTA),
        ("array limit", WaitCause.QUOTA),
    ],
)
def test_reasons_of_cycles_have_causes(reason, cause):
    assert cause_of_reason(reason) is cause


@pytest.mark.parametrize(
    ("record", "cause"),
    [
        ({"held": True, "blocked_by": DEPENDENCY}, WaitCause.HELD),
        ({"urgency": 0}, WaitCause.HELD),
        ({"blocked_by": BEGIN_TIME}, WaitCause.HELD),
        ({"blocked_by": DEPENDENCY}, WaitCause.DEPENDENCY),
        ({"blocked_by": NEVER}, WaitCause.DEPENDENCY),
        ({"state": State.ALLOCATED}, WaitCause.STARTING),
        ({}, WaitCause.STARTING),
        ({"limited": True}, WaitCause.QUOTA),
    ],
)
def test_without_reasons_the_record_decides(record, cause):
    after = counted(Waiting(**NEW | record), [], 130.0)
    assert {cause: part for cause, part in after.parts.items() if part} == {cause: 30.0}


def test_time_before_the_first_reason_counts_as_that_reason_and_the_own_queue_goes_first():
    own = [Spell(110.0, WaitCause.QUOTA), Spell(115.0, None)]
    common = [Spell(90.0, None), Spell(105.0, WaitCause.RESERVED)]
    after = counted(Waiting(**NEW), [own, common], 130.0)
    assert {cause: part for cause, part in after.parts.items() if part} == {
        WaitCause.RESERVED: 25.0,
        WaitCause.QUOTA: 5.0,
    }
