import msgspec
import pytest

from rankd.client.blocking import carry_out
from rankd.client.selection import AT_ONCE, Outcome, behind, change, change_all, parts, selected
from rankd.client.step import Effort
from rankd.core.errors import Refused, Unavailable
from rankd.wire.message import Failed, JobFilter, JobSelection, SelectionReply


def test_very_many_numbers_go_in_several_messages():
    ids = list(range(1, 2 * AT_ONCE + 2))
    sent = list(parts(JobSelection(ids=ids, dry_run=True)))
    assert [len(part.ids) for part in sent] == [AT_ONCE, AT_ONCE, 1]
    assert [job for part in sent for job in part.ids] == ids
    assert all(part.dry_run for part in sent)
    filtered = list(parts(JobSelection(filter=JobFilter(ids=ids, users=["bob"]))))
    assert [len(part.filter.ids) for part in filtered] == [AT_ONCE, AT_ONCE, 1]


def test_a_range_of_ids_is_a_filter_which_is_answered_in_parts():
    named, ranges = parts(JobSelection(ids=[3, "7-9", "17_3", "1-4000000000"], dry_run=True))
    assert named == JobSelection(ids=[3, "17_3"], dry_run=True)
    assert ranges == JobSelection(filter=JobFilter(ids=["7-9", "1-4000000000"], limit=AT_ONCE), dry_run=True)
    assert list(parts(JobSelection(id="7-9"))) == [JobSelection(filter=JobFilter(ids=["7-9"], limit=AT_ONCE))]
    assert list(parts(JobSelection(id="17_3"))) == [JobSelection(id="17_3")]


def test_a_filter_goes_on_behind_the_last_job_until_there_are_no_more():
    (first,) = parts(JobSelection(filter=JobFilter(users=["bob"])))
    assert first.filter == JobFilter(users=["bob"], limit=AT_ONCE)
    assert behind(first, 17).filter == JobFilter(users=["bob"], limit=AT_ONCE, after=17)
    assert behind(first, None) is None


def test_failures_that_an_answer_only_counts_are_counted():
    outcome = Outcome()
    failed = [Failed(id=1, code="c", message="m")]
    outcome.take(SelectionReply(done=[2], failed=failed, failed_count=10))
    outcome.take(SelectionReply(done=[3], failed=failed))
    assert (outcome.done, outcome.n_failed, outcome.untold) == ([2, 3], 11, 9)


def test_jobs_have_to_be_named_or_chosen():
    assert selected(17, None) == (17, None)
    assert selected("17_3", None) == ("17_3", None)
    assert selected([17, "18_1"], None) == (None, [17, "18_1"])
    with pytest.raises(Refused) as error:
        selected(None, None)
    assert error.value.code == "empty_selection"


class Changes:
    """Changes 3 jobs per request, of 7; fails at the request of this number."""

    largest = 1000

    def __init__(self, fails_at=None):
        self.n_requests = 0
        self.fails_at = fails_at

    def request(self, _verb, payload, _kind, *, timeout_s):
        assert timeout_s > 0
        self.n_requests += 1
        if self.n_requests == self.fails_at:
            raise Unavailable("no_answer", "")
        after = msgspec.json.decode(payload, type=JobSelection).filter.after or 0
        done = list(range(after + 1, min(after + 4, 8)))
        return SelectionReply(done=done, failed=[], last=done[-1] if done[-1] < 7 else None)


def test_all_parts_of_a_filter_are_one_reply():
    selection = JobSelection(filter=JobFilter(users=["bob"]))
    assert carry_out(change_all("job.cancel", selection, Effort(0)), Changes()).done == list(range(1, 8))


def test_what_was_changed_before_a_failure_is_known_and_the_failed_part_is_not_repeated():
    selection, outcome, changes = JobSelection(filter=JobFilter(users=["bob"])), Outcome(), Changes(fails_at=3)
    with pytest.raises(Unavailable):
        carry_out(change("job.cancel", selection, outcome, Effort(60)), changes)
    assert (outcome.done, changes.n_requests) == ([1, 2, 3, 4, 5, 6], 3)
