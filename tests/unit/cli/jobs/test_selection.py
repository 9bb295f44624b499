"""Requests that change jobs, in parts, and what is printed of the outcome."""

from types import SimpleNamespace

import pytest

from rankd.cli.jobs import selection
from rankd.cli.jobs.selection import act
from rankd.core.errors import Unavailable
from rankd.wire.message import Failed, JobFilter, JobSelection, JobSignal, SelectionReply


@pytest.fixture
def answered(monkeypatch):
    """Runs :func:`act` with this reply in place of requests, or with a reply and then an error."""

    def run(reply, error=None, verb="job.cancel", jobs=None, **flags):
        def ask(_arguments, _verb, _selection, outcome):
            outcome.take(reply)
            if error is not None:
                raise error

        monkeypatch.setattr(selection, "_ask", ask)
        arguments = SimpleNamespace(**{"json": False, "verbose": False, "dry_run": False, **flags})
        return act(arguments, verb, jobs or JobSelection(ids=[1]))

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
    [([], "2 jobs would be cancelled: 1, 2\n"), ([GONE], "2 jobs would be cancelled, 1 could not: 1, 2\n")],
)
def test_a_dry_run_says_how_many(answered, capsys, failed, text):
    assert answered(SelectionReply(done=[1, 2], failed=failed), dry_run=True) == bool(failed)
    assert capsys.readouterr().out == text


def test_a_dry_run_says_which_jobs_and_tasks(answered, capsys):
    reply = SelectionReply(done=[12, 17, 20], failed=[], names=["12", "17_[4-99]", "17_2"], jobs=98)
    assert answered(reply, dry_run=True) == 0
    assert capsys.readouterr().out == "98 jobs would be cancelled: 12, 17_[4-99], 17_2\n"
    assert answered(reply, dry_run=True, verbose=True) == 0
    assert capsys.readouterr().out == "12\n17_[4-99]\n17_2\n"
    assert answered(SelectionReply(done=[7], failed=[]), dry_run=True) == 0
    assert capsys.readouterr().out == "1 job would be cancelled: 7\n"
    assert answered(SelectionReply(done=list(range(50)), failed=[]), dry_run=True) == 0
    assert capsys.readouterr().out == "50 jobs would be cancelled: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … (-v lists all)\n"


def test_a_dry_run_says_which_signal_would_be_sent(answered, capsys):
    """`rankd signal --me 14` means signal 14."""
    signal = JobSignal(filter=JobFilter(users=["alice"]), signal="14", dry_run=True)
    assert answered(SelectionReply(done=[14], failed=[]), verb="job.signal", jobs=signal, dry_run=True) == 0
    assert capsys.readouterr().out == "1 job would get ALRM: 14\n"


def test_names_that_no_job_has_are_said(answered, capsys):
    chosen = JobSelection(filter=JobFilter(names=["nosuch"]))
    assert answered(SelectionReply(done=[], failed=[]), verb="job.hold", jobs=chosen) == 0
    assert capsys.readouterr().err == "rankd: no job fits, so none was held\n"
    assert answered(SelectionReply(done=[1], failed=[]), verb="job.hold", jobs=chosen) == 0
    assert capsys.readouterr().err == ""


def test_a_message_that_names_its_job_is_not_prefixed():
    assert selection.named("3-5", "there is no job in 3-5") == "there is no job in 3-5"
    assert selection.named("5_0", "all tasks of 5_0 have completed") == "all tasks of 5_0 have completed"
    assert selection.named(5, "it needs 15 cores") == "job 5: it needs 15 cores"


def test_a_request_that_fails_in_the_middle_leaves_what_was_done(answered, capsys):
    with pytest.raises(Unavailable):
        answered(SelectionReply(done=[1, 2], failed=[]), Unavailable("no_answer", "the intake does not answer"))
    assert "2 jobs were changed, then:" in capsys.readouterr().err
