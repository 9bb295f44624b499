import argparse
import asyncio
from types import SimpleNamespace

import msgspec
import pytest

from rankd.cli.common.option import ids, names
from rankd.cli.jobs.cancel_hold_release import selection
from rankd.cli.jobs.delivered import Delivered
from rankd.cli.jobs.delivery import report, say_output, shown_ids, status_of
from rankd.cli.main import _parser
from rankd.client.asker import Asker, login_name
from rankd.client.pair import key_value
from rankd.client.session import repeat
from rankd.core.errors import Refused, Unavailable
from rankd.wire.message import JobFilter, Rejected


@pytest.mark.parametrize(("ids", "text"), [([3], "3"), ([3, 4], "3-4"), ([9, 3, 4, 5], "3-5,9"), ([1, 3, 5], "1,3,5")])
def test_numbers_are_shown_as_ranges(ids, text):
    assert shown_ids(ids) == text


@pytest.mark.parametrize(
    ("record", "status"),
    [
        ({"state": "completed", "exit_status": 0}, 0),
        ({"state": "failed", "exit_status": 7}, 7),
        ({"state": "failed", "exit_status": None, "signal": 9}, 137),
        ({"state": "timeout", "signal": 15}, 143),
        ({"state": "cancelled", "exit_status": None, "signal": None}, 1),
        ({"state": "failed", "exit_status": 0}, 1),
    ],
)
def test_waiting_ends_with_what_a_shell_would_say(record, status):
    assert status_of(SimpleNamespace(**{"exit_status": None, "signal": None} | record)) == status


def output(**changes):
    return argparse.Namespace(**({"json": False, "parsable": False, "count": 1, "file": None} | changes))


@pytest.mark.parametrize(
    ("ids", "flags", "text"),
    [
        ({0: 17}, {}, "Submitted batch job 17\n"),
        ({0: 17}, {"parsable": True}, "17\n"),
        ({0: 17, 1: 18}, {"count": 2}, "Submitted 2 batch jobs 17-18\n"),
        ({0: 17, 1: 18}, {"parsable": True}, "17\n18\n"),
        ({}, {}, ""),
    ],
)
def test_submissions_print_sbatchs_line(ids, flags, text, capsys):
    report(Delivered(ids=ids, rejected=[]), output(**flags))
    assert capsys.readouterr().out == text


@pytest.mark.parametrize(
    ("job", "ids", "said"),
    [
        ({"stdout": "%x-%j.log", "stderr": "%x-%j.log", "name": "wrap"}, [17], "output goes to /w/wrap-17.log"),
        ({"stdout": "o%j", "stderr": "/l/e%j"}, [17], "output goes to /w/o17, errors go to /l/e17"),
        ({"stdout": "/l/%j", "stderr": "/l/%j"}, [17, 18], "output goes to /l/%j"),
        ({"stdout": "o%4j", "stderr": "o%4j"}, [17], "output goes to /w/o0017"),
        ({"stdout": "%u%a%%.%2a", "stderr": "%u%a%%.%2a"}, [17], "output goes to /w/alice0%.00"),
        ({"stdout": "%n-%j", "stderr": "e"}, [17], "output goes to /w/%n-17, errors go to /w/e (%n: the first node)"),
        ({"stdout": "%u.%j", "stderr": "%u.%j"}, [17, 18], "output goes to /w/alice.%j"),
        (
            {"stdout": "o", "stderr": "o"},
            [17, 18],
            "output goes to /w/o\nrankd: 2 jobs write to the same file; put %j into its name",
        ),
    ],
)
def test_a_script_says_where_its_output_goes(job, ids, said, capsys):
    job = {"command": ["sh"], "cwd": "/w", **job}
    say_output({**job, "script": "#!/bin/sh"}, ids, lambda: "alice")
    assert capsys.readouterr() == ("", f"rankd: {said}\n")
    say_output(job, ids, lambda: "alice")
    say_output({**job, "script": "#!/bin/sh"}, [], lambda: "alice")
    assert capsys.readouterr().err == ""


def test_the_output_of_an_array_has_no_id_that_only_a_task_has(capsys):
    job = {"command": ["sh"], "cwd": "/w", "stdout": "%A_%a-%j.%n", "stderr": "%A_%a-%j.%n", "script": "#!/bin/sh"}
    say_output(job, [17], lambda: "alice", is_array=True)
    assert (
        capsys.readouterr().err == "rankd: output goes to /w/17_%a-%j.%n (%a: the task's index, %n: the first node)\n"
    )


def test_submissions_as_json(capsys):
    report(Delivered(ids={0: 17}, rejected=[]), output(json=True))
    assert msgspec.json.decode(capsys.readouterr().out) == {"id": 17}
    bad = Rejected(index=1, code="unknown_queue", message="unknown queue 'x'", field="queue")
    report(Delivered(ids={0: 17}, rejected=[bad]), output(json=True, count=2))
    answer = msgspec.json.decode(capsys.readouterr().out)
    assert answer["ids"] == [17]
    assert answer["rejected"][0]["index"] == 1


def test_copies_that_are_refused_for_one_reason_are_one_line(capsys):
    bad = [Rejected(index=place, code="c", message="no") for place in (0, 1, 2)]
    report(Delivered(ids={}, rejected=[*bad, Rejected(index=4, code="c", message="never")]), output(count=5))
    assert capsys.readouterr().err == "rankd: 3 entries (1-3) refused: no\nrankd: entry 5 refused: never\n"


class Flaky:
    """Answers after some failures, as a daemon that restarts does."""

    def __init__(self, failures, error):
        self.left = failures
        self.error = error

    async def __call__(self):
        if self.left:
            self.left -= 1
            raise self.error
        return "done"


@pytest.fixture
def soon_again(monkeypatch):
    """Nobody is spared by the pause here."""
    monkeypatch.setattr("rankd.client.session.RETRY_PAUSE_S", 0.001)


@pytest.mark.usefixtures("soon_again")
async def test_what_is_unavailable_is_asked_again():
    action = Flaky(3, Unavailable("no_answer", "nobody"))
    assert await repeat(action, asyncio.get_running_loop().time() + 10) == "done"
    assert action.left == 0


@pytest.mark.usefixtures("soon_again")
async def test_what_stays_unavailable_is_given_up_in_time():
    with pytest.raises(Unavailable):
        await repeat(Flaky(10**9, Unavailable("no_answer", "nobody")), asyncio.get_running_loop().time() + 0.05)


async def test_what_is_refused_is_not_asked_again():
    action = Flaky(2, Refused("unknown_queue", "no"))
    with pytest.raises(Refused):
        await repeat(action, asyncio.get_running_loop().time() + 10)
    assert action.left == 1


def chosen(line):
    return selection(_parser("cancel").parse_args(["cancel", *line.split()]))


def test_jobs_are_chosen_by_number_by_filter_or_by_both(monkeypatch):
    monkeypatch.setenv("RANKD_USER", "me")
    assert chosen("1 3,4 7-8").ids == [1, 3, 4, "7-8"]
    everything = 2**31 - 1
    assert chosen("-u bob -t PD -n a,b").filter == JobFilter(
        users=["bob"], states=["pending"], names=["a", "b"], limit=everything
    )
    assert chosen("--me").filter == JobFilter(users=["me"], limit=everything)
    assert chosen("5 --me").filter == JobFilter(ids=[5], users=["me"], limit=everything)
    assert chosen("-j 5").ids == [5]


def test_choosing_nothing_is_refused():
    with pytest.raises(Refused, match="which jobs"):
        chosen("")


def test_choosing_all_states_outright_is_a_filter():
    assert chosen("-t all").filter == JobFilter(limit=2**31 - 1)
    assert chosen("--state PD --dry-run") == chosen("-t PD --dry-run")


def test_who_asks_stands_in_the_subject(monkeypatch):
    assert Asker("first.last").subject("job.submit") == "rankd.v1.user.first%2Elast.job.submit"
    assert Asker("root", admin=True).subject("job.hold") == "rankd.v1.admin.root.job.hold"
    monkeypatch.setenv("RANKD_USER", "named")
    assert login_name() == "named"


def test_lists_of_the_command_line():
    assert names("a,, b ") == ["a", "b"]
    assert ids("1,2,7-9") == [1, 2, 7, 8, 9]
    assert key_value("A=b=c") == ("A", "b=c")
    for bad in (
        lambda: ids("x"),
        lambda: ids("1-"),
        lambda: ids("1-9999999999"),
        lambda: key_value("A"),
        lambda: key_value("=b"),
    ):
        with pytest.raises(argparse.ArgumentTypeError):
            bad()
