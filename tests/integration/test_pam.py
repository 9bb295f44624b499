"""Signing in to the page by PAM: a real service of PAM, and a real account of this machine, made for the test."""

from __future__ import annotations

import ctypes
import grp
import os
import secrets
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pamela
import pytest
from browserless import Answer, Visitor
from integration.test_web import Site

from rankd.services.web.attempts import MOST_PER_NAME
from rankd.services.web.pam_check import Question, Unchecked, checked
from rankd.services.web.password import FAILED_S
from rankd.services.web.sign_in import FORM_COOKIE
from rankd.services.web.sign_in_link import read_link

WORDS = "this name and password do not sign in here"
NOBODY_UID, NO_NEW_PRIVS = 65_534, 38

pytestmark = pytest.mark.skipif(
    os.getuid() != 0 or not (os.environ.get("CI") or os.environ.get("RANKD_TEST_PAM")),
    reason="it makes an account and a service of PAM on this machine: needs root, and CI or RANKD_TEST_PAM=1",
)


class Account(NamedTuple):
    """A real account, and the service of PAM that checks its password."""

    name: str
    password: str
    service: str


@pytest.fixture(scope="module")
def account() -> Iterator[Account]:
    made = Account(f"rktest{os.getpid() % 100_000}", secrets.token_urlsafe(9) + " ä", f"rankd-test-{os.getpid()}")
    service = Path("/etc/pam.d") / made.service
    service.write_text("auth required pam_unix.so\naccount required pam_unix.so\n")
    try:
        subprocess.run(["useradd", "-M", "-N", "-s", "/usr/sbin/nologin", made.name], check=True)
        subprocess.run(["chpasswd"], input=f"{made.name}:{made.password}".encode(), check=True)
        yield made
    finally:
        service.unlink()
        subprocess.run(["userdel", made.name], check=False, capture_output=True)


@pytest.fixture(scope="module")
def site(account, tmp_path_factory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("pam"), web=f'pam = "{account.service}"\n')
    site.start()
    yield site
    site.end()


@pytest.fixture
def visitor(site) -> Visitor:
    return Visitor(site.base(site.state))


def sign_in(visitor: Visitor, name: str, password: str, **headers: str) -> Answer:
    """With the form that the page shows."""
    form = visitor.ask("/queue")
    assert form.status == 401
    assert 'type="password"' in form.text
    token = visitor.token()
    return visitor.ask("/sign-in", {"token": token, "user": name, "password": password}, **headers)


def test_a_user_signs_in_by_password_and_changes_own_jobs(site, account, visitor):
    job = site.submit(account.name)
    answer = sign_in(visitor, account.name, account.password)
    assert answer.status == 200, answer.text
    assert f"signed in as {account.name}" in answer.text
    assert visitor.ask(f"/job/{job}/release", {"token": visitor.token()}).status == 303
    assert not site.held(job)
    other = site.submit("bob")
    assert visitor.ask(f"/job/{other}/release", {"token": visitor.token()}).status == 403


def test_whoever_fails_reads_the_same_after_the_same_time(account, visitor):
    """Another password, no such user, root, and what can be no name or no password."""
    tried = [
        (account.name, "wrong"), ("no-such-user", "wrong"), ("root", "wrong"), ("x" * 300, "w"), ("a\nb", "w"),
        (account.name, account.password + "\0"), (account.name, ""),
    ]  # fmt: skip

    def attempt(given: tuple[str, str]) -> tuple[Answer, float]:
        one = Visitor(visitor.base)
        one.token()
        begun = time.monotonic()
        return sign_in(one, *given), time.monotonic() - begun

    with ThreadPoolExecutor(len(tried)) as threads:
        found = list(threads.map(attempt, tried))
    assert {answer.status for answer, _ in found} == {403}
    assert {(WORDS in answer.text, "Sign out" in answer.text) for answer, _ in found} == {(True, False)}
    assert min(seconds for _, seconds in found) >= FAILED_S


def test_a_form_of_another_site_or_another_browser_signs_nobody_in(account, visitor):
    given = {"user": account.name, "password": account.password}
    token = visitor.token()
    assert visitor.ask("/sign-in", given | {"token": token}, Origin="http://evil.example").status == 403
    assert "too old" in Visitor(visitor.base).ask("/sign-in", given | {"token": token}).text
    assert "too old" in visitor.ask("/sign-in", given | {"token": "x"}).text
    assert visitor.cookie.startswith(f"{FORM_COOKIE}=")
    assert visitor.ask("/queue").status == 401


def test_a_name_can_be_tried_some_times_only(visitor):
    def attempt(_: int) -> int:
        return sign_in(Visitor(visitor.base), "tried-often", "wrong").status

    with ThreadPoolExecutor(MOST_PER_NAME + 4) as threads:
        found = list(threads.map(attempt, range(MOST_PER_NAME + 4)))
    assert sorted(found) == [403] * MOST_PER_NAME + [429] * 4


def test_a_user_whose_access_was_revoked_is_not_let_in(site, account, visitor):
    site.revoke(account.name)
    try:
        answer = sign_in(visitor, account.name, account.password)
        assert (answer.status, WORDS in answer.text) == (403, True)
    finally:
        site.readmit(account.name)


def as_nobody(account: Account, password: str, *groups: int) -> str:
    """What the check finds in a process without rights but these groups, which programs that it starts can't get."""
    assert pamela
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups(groups)
            os.setgid(NOBODY_UID)
            os.setuid(NOBODY_UID)
            ctypes.CDLL(None).prctl(NO_NEW_PRIVS, 1, 0, 0, 0)
            question = Question(service=account.service, user=account.name, password=password, address="10.0.0.7")
            os.write(writing, (checked(question) or "nobody").encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as found:
        return found.read()


def test_the_group_shadow_is_all_that_a_check_needs(account):
    shadow = grp.getgrnam("shadow").gr_gid
    assert as_nobody(account, account.password, shadow) == account.name
    assert as_nobody(account, "wrong", shadow) == "nobody"
    assert as_nobody(account, account.password) == "nobody"


def test_a_closed_account_and_a_service_that_is_missing(account):
    question = Question(service=account.service, user=account.name, password=account.password, address="")
    assert checked(question) == account.name
    subprocess.run(["usermod", "-e", "1", account.name], check=True)
    assert checked(question) is None
    subprocess.run(["usermod", "-e", "", account.name], check=True)
    with pytest.raises(Unchecked, match="is missing"):
        checked(Question(service="rankd-none", user=account.name, password=account.password, address=""))


def test_read_only_pages_take_no_passwords(site):
    wall = Visitor(read_link(site.wall).partition("/sign-in")[0])
    assert 'type="password"' not in wall.ask("/queue").text
    assert wall.ask("/sign-in", {"user": "a", "password": "b"}).status == 403
