"""What ``rankd up`` does for other users, by its options and by who starts it."""

import argparse

import pytest

from rankd.cli.run.up_rights import (
    add_rights,
    check_rights,
    invitation_of_others,
    is_shared,
    rights_in_words,
    run_as_of,
)
from rankd.core.errors import Refused

ROOT, USER = 0, 1000


@pytest.fixture
def started(monkeypatch):
    """The options, as this user gives them."""

    def parse(uid: int, line: str) -> argparse.Namespace:
        monkeypatch.setattr("rankd.cli.run.up_rights.os.geteuid", lambda: uid)
        parser = argparse.ArgumentParser()
        add_rights(parser)
        parser.add_argument("--nats")
        parser.add_argument("--no-local-agent", action="store_true")
        return parser.parse_args(line.split())

    return parse


@pytest.mark.parametrize(
    ("uid", "line", "shared", "run_as"),
    [
        (ROOT, "", True, "submitter"),
        (ROOT, "--no-share", False, "submitter"),
        (ROOT, "--run-as agent", False, "agent"),
        (ROOT, "--run-as submitter", True, "submitter"),
        (ROOT, "--no-auth", False, "agent"),
        (ROOT, "--nats tls://head", False, "submitter"),
        (USER, "", False, "submitter"),
        (USER, "--share", True, "submitter"),
        (USER, "--share --run-as agent", True, "agent"),
        (USER, "--no-auth", False, "agent"),
        (USER, "--nats tls://head", False, "submitter"),
    ],
)
def test_root_shares_and_nobodys_jobs_have_anothers_rights_unless_that_is_said(started, uid, line, shared, run_as):
    arguments = started(uid, line)
    check_rights(arguments)
    assert (is_shared(arguments), run_as_of(arguments)) == (shared, run_as)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--share --no-auth", "needs the embedded broker with authentication"),
        ("--share --nats tls://head", "needs the embedded broker with authentication"),
        ("--share --run-as agent", "other users' jobs would run as root"),
    ],
)
def test_what_contradicts_itself_is_refused(started, line, said):
    with pytest.raises(Refused, match=said):
        check_rights(started(ROOT, line))


@pytest.mark.parametrize(
    ("uid", "line", "rights", "others"),
    [
        (ROOT, "", "the users who submit them", "rankd submit --dir D"),
        (ROOT, "--run-as agent", "'ann', who started this", None),
        (USER, "", "'ann', who started this; jobs of other users are refused", None),
        (USER, "--share", "'ann', who started this; jobs of other users are refused", "Their jobs are refused"),
        (USER, "--share --no-local-agent", "their nodes say", "rankd submit --dir D"),
        (USER, "--share --run-as agent", "'ann', who started this", "rankd submit --dir D"),
    ],
)
def test_what_is_announced(started, uid, line, rights, others):
    arguments = started(uid, line)
    assert rights_in_words(arguments, "ann") == rights
    said = invitation_of_others(arguments, "D")
    assert said is None if others is None else others in said
