"""Requests that change jobs, in parts, and what is printed of the outcome."""

from types import SimpleNamespace

import pytest

from rankd.cli.jobs import selection
from rankd.cli.jobs.selection import AT_ONCE, Outcome, act, behind, parts
from rankd.core.errors import Unavailable
from rankd.wire.message import Failed, JobFilter, JobSelection, SelectionReply


def test_very_many_numbers_go_in_several_messages():
    ids = list(range(1, 2 * AT_ONCE + 2))
    sent = list(parts(JobSelection(ids=ids, dry_run=True)))
    assert [len(part.ids) for part in sent] == [AT_ONCE, AT_ONCE, 1]
    assert [job for part in sent for job in part.ids] == ids
    assert all(part.dry_run for part in sent)
    filtered = list(parts(JobSelection(filter=JobFilter(ids=ids, users=["bob"]))))
    assert [len(part.filter.ids) for part in filtered] == [AT_ONCE, AT_ONCE, 1]


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


@pytest.fixture
def answered(monkeypatch):
    """Runs :func:`act` with this reply in place of requests, or with a reply and then an error."""

    def run(reply, error=None, **flags):
        def ask(_arguments, _verb, _selection, outcome):
            outcome.take(reply)
            if error is not None:
                raise error

        monkeypatch.setattr(selection, "_ask", ask)
        arguments = SimpleNamespace(**{"json": False, "verbose": False, "dry_run": False, **flags})
        return act(arguments, "job.cancel", JobSelection(ids=[1]))

    return run


GONE = Failed(id=4, code="not_found", message="there is no job 4")


def test_a_success_is_silent(answered, capsys):
    assert answered(SelectionReply(done=[1, 2], failed=[])) == 0
    assert capsys.readouterr() == ("", "")


def test_changed_jobs_are_listed_on_request(answered, capsys):
    assert answered(SelectionReply(done=[1, 2], failed=[]), verbose=True) == 0
    assert capsys.readouterr().out == "1\n2\n"


def test_failures_are_named_and_counted(answered, capsys):
    other = Failed(id=5, code="bad_state", message="it has ended")
    assert answered(SelectionReply(done=[1], failed=[GONE, other], failed_count=7)) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "rankd: there is no job 4\nrankd: job 5: it has ended\nrankd: and 5 more\n"


@pytest.mark.parametrize(
    ("failed", "text"),
    [([], "2 jobs would be changed\n"), ([GONE], "2 jobs would be changed, 1 could not\n")],
)
def test_a_dry_run_says_how_many(answered, capsys, failed, text):
    assert answered(SelectionReply(done=[1, 2], failed=failed), dry_run=True) == bool(failed)
    assert capsys.readouterr().out == text


def test_a_request_that_fails_in_the_middle_leaves_what_was_done(answered, capsys):
    with pytest.raises(Unavailable):
        answered(SelectionReply(done=[1, 2], failed=[]), Unavailable("no_answer", "the intake does not answer"))
    assert "2 jobs were changed, then:" in capsys.readouterr().err
