"""What ``rankd watch`` follows, by its options."""

import pytest

from rankd.cli.look.watch import _wanted
from rankd.cli.main import _parser, main

PLACE = ["--nats", "nats://127.0.0.1:1", "--as", "ann"]


def wanted(*words):
    return _wanted(_parser("watch").parse_args(["watch", *PLACE, *words]))


@pytest.mark.parametrize("whose", [["--all"], ["-u", "bob"], ["-u", "ann,bob"]])
def test_jobs_of_others_are_watched_by_administrators_only(whose, capsys):
    assert main(["watch", *PLACE, *whose]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert "is for administrators only" in line
    assert "--admin" in line
    assert wanted("--admin", *whose).ask == "rankd.v1.admin.ann.job.events"


@pytest.mark.parametrize(
    ("words", "users", "hints"),
    [
        ([], ["ann"], ["rankd.v1.event.job.ann"]),
        (["-u", "ann"], ["ann"], ["rankd.v1.event.job.ann"]),
        (["--admin"], ["ann"], ["rankd.v1.event.job.ann"]),
        (["--admin", "-u", "b.c,ann"], ["b.c", "ann"], ["rankd.v1.event.job.b%2Ec", "rankd.v1.event.job.ann"]),
        (["--admin", "--all"], None, ["rankd.v1.event.job.*"]),
    ],
)
def test_the_hints_are_the_messages_of_the_watched_users(words, users, hints):
    found = wanted(*words)
    assert (found.users, found.hints, found.since, found.jobs) == (users, hints, None, frozenset())


def test_jobs_of_all_lists_are_watched():
    assert wanted("17", "20,30-32").jobs == {17, 20, "30-32"}
