"""The soak's verdict on sessions: it accepts what was right, and names each kind of fault. Pure."""

from __future__ import annotations

import dataclasses

import pytest
from soak.session_verdict import REPLAYED_BYTES, Part, Seen, wrong_sessions

CONTENT = bytes(range(256)) * 1_000
DONE = {"state": "completed", "cause": None, "exit_status": 0}
LOST = {"state": "node_lost", "cause": "lost", "exit_status": None}
RUN = Seen("a", Part.WHOLE, CONTENT, CONTENT, 0)
JOINED = Seen("a", Part.END, CONTENT, CONTENT[-REPLAYED_BYTES:], 0)


def wrong(seen: Seen, job=DONE, **changes) -> str:
    return " ".join(wrong_sessions([dataclasses.replace(seen, **changes)], {} if job is None else {"a": job}))


def test_what_is_right_is_accepted():
    assert wrong(RUN) == ""
    assert wrong(RUN, LOST, shown=CONTENT[:99], status=125) == ""
    assert (
        wrong(RUN, {"state": "failed", "cause": "orphaned", "exit_status": None}, shown=b"", status=-9, ending="kill")
        == ""
    )
    assert wrong(RUN, None, shown=b"", status=-9, ending="kill") == ""
    assert wrong(JOINED, before=CONTENT[:500]) == ""
    assert wrong(RUN, part=Part.WITHIN, shown=b"job 1: starting\n" + CONTENT) == ""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"shown": CONTENT[:-1]}, "255999 of 256000 bytes"),
        ({"shown": CONTENT[:300] + CONTENT[299:]}, "not written so"),
        ({"shown": CONTENT[:300] + CONTENT[301:]}, "not written so"),
        ({"shown": b"", "ending": "stall"}, "0 of 256000"),
        ({"status": 125}, "it ended with 125, its job with 0; 0 is right"),
        ({"shown": b"other", "status": -9, "ending": "kill"}, "not written so"),
        ({"before": b"other"}, "first client"),
    ],
)
def test_each_fault_is_named(changes, said):
    assert said in wrong(RUN, **changes)


def test_faults_of_the_job_and_of_one_that_is_joined_are_named(tmp_path):
    assert "not written so" in wrong(JOINED, shown=CONTENT[-REPLAYED_BYTES:-5] + b"other")
    assert "shows 10 of" in wrong(JOINED, shown=CONTENT[-10:])
    assert "nobody has ended it" in wrong(RUN, LOST | {"state": "failed", "cause": "orphaned"}, status=125)
    assert "ended with 0, and its job is node_lost" in wrong(RUN, LOST)
    assert "there is no job" in wrong(RUN, None, shown=b"", status=125)
    (tmp_path / "file").write_bytes(CONTENT + b"x")
    assert "file has other bytes" in wrong(RUN, file=tmp_path / "file")


STEP = {"number": 0, "ended_at": 5.0, "exit_status": 9, "cause": None}
CANCELLED = {"state": "cancelled", "cause": "cancel", "exit_status": None, "steps": [STEP]}
STEPPED = Seen("a", Part.WHOLE, CONTENT, CONTENT, 9, step=9)


@pytest.mark.parametrize(
    ("job", "changes", "said"),
    [
        ({}, {}, ""),
        ({}, {"shown": b"", "status": -9, "ending": "kill"}, ""),
        ({"state": "failed", "cause": "lost"}, {"shown": CONTENT[:9], "status": 125}, ""),
        ({"state": "failed", "cause": "lost"}, {"shown": CONTENT[:9], "status": 0}, "ended with 0"),
        ({"steps": [STEP | {"ended_at": None}]}, {}, "step 0 has no end"),
        ({"steps": [STEP | {"exit_status": None, "cause": "job_ended"}]}, {}, "ended with 9"),
        ({}, {"status": 125}, "9 is right"),
        ({}, {"shown": CONTENT[:-1]}, "255999 of 256000"),
    ],
)
def test_steps_are_judged_by_their_records_too(job, changes, said):
    found = wrong(STEPPED, CANCELLED | job, **changes)
    assert said in found
    assert bool(said) == bool(found)
