"""The agent's state directory: what is written for each allocation, and what a killed agent leaves of it."""

from __future__ import annotations

import resource
from contextlib import contextmanager

import msgspec
import pytest

from rankd.core.errors import Refused
from rankd.core.model.device import AssignedDevice
from rankd.core.model.job import Interactive, JobRequest
from rankd.services.keeper.state import AgentState, Claim, EpilogClaim, Leftover, ProcessRecord
from rankd.services.keeper.state import claim_of as claim_of_start
from rankd.wire.codec import encode
from rankd.wire.message import Report, StartJob


def directories(tmp_path):
    """The names of the directories of allocations, besides hidden ones."""
    return sorted(path.name for path in (tmp_path / "state/allocations").iterdir())


def claim_of(allocation: int, job: int = 9) -> Claim:
    return Claim(allocation=allocation, job=job)


@pytest.fixture
def state(tmp_path):
    with AgentState(tmp_path / "state") as opened:
        yield opened


@pytest.mark.parametrize("interactive", [None, Interactive(), Interactive(detach_ok=True)])
def test_a_claim_has_what_an_agent_must_know_that_finds_the_job_again(interactive):
    start = StartJob(
        allocation=3, job=9, user="alice", name="fit", nodes=["n1"], rank=0, resources={},
        request=JobRequest(command=["true"], interactive=interactive),
        devices=[AssignedDevice(index=0, id="g0", model="h200")],
    )  # fmt: skip
    epilog = EpilogClaim(program="/epilog", environment={}, timeout_s=5.0)
    claim = claim_of_start(start, ["/dev/g0"], epilog)
    assert (claim.allocation, claim.job, claim.epilog) == (3, 9, epilog)
    assert (claim.devices, claim.files) == (["g0"], ["/dev/g0"])
    assert claim.interactive == (interactive is not None)
    assert claim.detach_ok == (interactive == Interactive(detach_ok=True))


def test_a_claim_is_given_once(state):
    assert state.claim([claim_of(1), claim_of(2)]) == {1, 2}
    assert state.claim([claim_of(2), claim_of(3)]) == {3}


def test_a_claim_is_given_once_also_to_the_next_agent(tmp_path):
    for expected in ({1}, set()):
        with AgentState(tmp_path) as state:
            assert state.claim([claim_of(1)]) == expected


def test_a_scan_finds_what_was_recorded(state):
    process = ProcessRecord(pid=5, start_time=6, started_at=7.0)
    report = Report(allocation=3, job=9, kind="ended", at=8.0)
    state.claim([claim_of(3), claim_of(2), claim_of(1)])
    with state.marker(2) as mark:
        mark(process)
    state.write_end(report)
    assert state.scan() == [
        Leftover(claim=claim_of(1), process=None, ended=None),
        Leftover(claim=claim_of(2), process=process, ended=None),
        Leftover(claim=claim_of(3), process=None, ended=report),
    ]
    state.remove([1, 2, 3])
    assert state.scan() == []


def test_the_end_of_what_was_spawned_is_recorded_beside_its_process(state, tmp_path):
    """An older keeper has written it into a file of its own."""
    process = ProcessRecord(pid=5, start_time=6, started_at=7.0)
    report = Report(allocation=1, job=9, kind="ended", at=8.0)
    for end in (report, msgspec.structs.replace(report, allocation=2)):
        state.claim([claim_of(end.allocation)])
        with state.marker(end.allocation) as mark:
            mark(process)
    state.write_end(report)
    (tmp_path / "state/allocations/2/ended").write_bytes(encode(msgspec.structs.replace(report, allocation=2)))
    assert [(left.process, left.ended.allocation) for left in state.scan()] == [(process, 1), (process, 2)]


def test_a_second_end_is_the_one_that_counts(state):
    """A cancelled allocation is reported again once its job is known; what was not spawned has no process."""
    for job in (0, 9):
        state.claim([claim_of(1)])
        end = Report(allocation=1, job=job, kind="ended", at=8.0)
        state.write_end(end)
        assert state.scan() == [Leftover(claim=claim_of(1), process=None, ended=end)]
    with state.marker(1):
        pass
    last = Report(allocation=1, job=9, kind="ended", at=9.0)
    state.write_end(last)
    assert state.scan() == [Leftover(claim=claim_of(1), process=None, ended=last)]


def test_a_directory_that_is_used_again_is_as_new(state, tmp_path):
    """It may be started once, and knows nothing of what it was."""
    for allocation in (1, 2, 3):
        assert state.claim([claim_of(allocation)]) == {allocation}
        assert state.scan() == [Leftover(claim=claim_of(allocation), process=None, ended=None)]
        with state.marker(allocation) as mark:
            mark(ProcessRecord(pid=allocation, start_time=6, started_at=7.0))
        with pytest.raises(FileExistsError), state.marker(allocation):
            pass
        state.write_end(Report(allocation=allocation, job=9, kind="ended", at=8.0))
        [left] = state.scan()
        assert (left.process.pid, left.ended.allocation) == (allocation, allocation)
        state.remove([allocation])
        assert directories(tmp_path) == []
    assert [sorted(p.name for p in spare.iterdir()) for spare in (tmp_path / "state/spare").iterdir()] == [["blank"]]


def test_directories_that_an_earlier_agent_kept_are_not_used_again(tmp_path):
    """It may have been killed while it emptied one."""
    with AgentState(tmp_path) as state:
        state.claim([claim_of(1), claim_of(2)])
        state.remove([1, 2])
        (tmp_path / "spare/0/record").write_text("old")
    with AgentState(tmp_path) as state:
        assert list((tmp_path / "spare").iterdir()) == []
        assert state.claim([claim_of(3)]) == {3}
        assert [path.name for path in (tmp_path / "allocations/3").iterdir()] == ["record"]


def test_no_more_directories_are_kept_than_are_useful(state, tmp_path, monkeypatch):
    monkeypatch.setattr("rankd.services.keeper.spare.MOST", 2)
    state.claim([claim_of(allocation) for allocation in range(1, 6)])
    state.remove(range(1, 6))
    assert directories(tmp_path) == []
    assert len(list((tmp_path / "state/spare").iterdir())) == 2


def test_torn_records_count_as_none_and_unclaimed_directories_go(state, tmp_path):
    state.claim([claim_of(1)])
    (tmp_path / "state/allocations/1/ended").write_text('{"alloc')
    (tmp_path / "state/allocations/2").mkdir()
    assert state.scan() == [Leftover(claim=claim_of(1), process=None, ended=None)]
    assert directories(tmp_path) == ["1"]


def test_killed_in_the_middle_of_a_claim_spoils_no_earlier_record(state, tmp_path):
    state.claim([claim_of(1)])
    allocations = tmp_path / "state/allocations"
    (allocations / ".record").hardlink_to(allocations / "1/record")
    state.claim([claim_of(2)])
    assert [leftover.claim for leftover in state.scan()] == [claim_of(1), claim_of(2)]


@contextmanager
def files_up_to(n_bytes):
    """The kernel writes what still fits into a file, then nothing, as on a disk that fills up."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_claim_that_can_not_be_written_leaves_nothing(state, monkeypatch):
    monkeypatch.setattr("rankd.services.keeper.state.CLAIMS_PER_RECORD", 1)  # each is a record, as 10,000 are
    with files_up_to(35), pytest.raises(OSError, match="File too large"):
        state.claim([claim_of(1), claim_of(2, job=10**15)])
    assert state.scan() == []
    assert state.claim([claim_of(1), claim_of(2, job=10**15)]) == {1, 2}


def test_an_end_that_can_not_be_written_whole_is_not_recorded(state):
    state.claim([claim_of(1)])
    with files_up_to(50), pytest.raises(OSError, match="File too large"):
        state.write_end(Report(allocation=1, job=9, kind="ended", at=8.0, stdout="/long" * 20))
    assert state.scan() == [Leftover(claim=claim_of(1), process=None, ended=None)]


@pytest.mark.usefixtures("state")
def test_one_agent_at_a_time(tmp_path):
    with pytest.raises(Refused, match="another agent works with"), AgentState(tmp_path / "state"):
        pass
