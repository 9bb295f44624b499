"""The look-ups of users, with databases that are slow, silent and wrong."""

import asyncio
import grp
import os
import pwd
import threading

import pytest
from watch import PATIENCE_S

from rankd.core.errors import Unavailable
from rankd.services.intake import user_database
from rankd.services.intake.user_database import THREADS, HostUser, UserDatabase, look_up


class Book:
    """A user database that the test opens and closes."""

    def __init__(self):
        self.asked = []
        self.users = {"ann": HostUser(1, ("staff",))}
        self.is_open = threading.Event()
        self.is_open.set()

    def look(self, user, with_groups):
        self.asked.append((user, with_groups))
        assert self.is_open.wait(PATIENCE_S)
        found = self.users.get(user, HostUser(None))
        return found if with_groups else found._replace(groups=())


@pytest.fixture
async def book():
    return Book()


@pytest.fixture
async def database(book):
    database = UserDatabase(book.look)
    database.with_groups = True
    yield database
    book.is_open.set()
    database.close()


def later(monkeypatch, seconds):
    """Let the clock go forward."""
    now = user_database.time.monotonic
    monkeypatch.setattr(user_database.time, "monotonic", lambda: now() + seconds)


def test_a_real_user_is_found_with_the_names_of_all_groups():
    found = look_up("root", True)
    ids = os.getgrouplist("root", pwd.getpwnam("root").pw_gid)
    assert found == HostUser(0, tuple(sorted({grp.getgrgid(id_).gr_name for id_ in ids})))
    assert look_up("root", False) == HostUser(0)
    for nobody in ("nobody-of-that-name", "a\0b", "\ud800"):
        assert look_up(nobody, True) == HostUser(None)


async def test_an_answer_is_used_for_a_minute(database, book, monkeypatch):
    assert await database.look(["ann", "bob"]) == {"ann": HostUser(1, ("staff",)), "bob": HostUser(None)}
    assert await database.look(["bob", "ann"])
    assert sorted(book.asked) == [("ann", True), ("bob", True)]
    book.users["ann"] = HostUser(1)
    later(monkeypatch, 61)
    assert await database.look(["ann"]) == {"ann": HostUser(1)}, "who has left a group has left it within a minute"


async def test_groups_are_looked_up_once_they_are_needed(database):
    database.with_groups = False
    assert await database.look(["ann"]) == {"ann": HostUser(1)}
    database.with_groups = True
    assert await database.look(["ann"]) == {"ann": HostUser(1, ("staff",))}


async def test_a_silent_database_delays_nobody_for_long_and_the_last_answer_counts_for_an_hour(
    database, book, monkeypatch
):
    monkeypatch.setattr(user_database, "ANSWER_S", 0.05)
    await database.look(["ann"])
    book.is_open.clear()
    later(monkeypatch, 61)
    assert await database.look(["ann"]) == {"ann": HostUser(1, ("staff",))}
    with pytest.raises(Unavailable) as error:
        await database.look(["ann", "bob"])
    assert (error.value.code, error.value.retryable) == ("user_database_silent", True)
    later(monkeypatch, 3_700)
    with pytest.raises(Unavailable):
        await database.look(["ann"])
    assert len(book.asked) <= 1 + THREADS, "each user is asked about once, and no thread is added"
    book.is_open.set()
    monkeypatch.setattr(user_database, "ANSWER_S", 1_000_000)
    assert await database.look(["ann", "bob"]) == {"ann": HostUser(1, ("staff",)), "bob": HostUser(None)}


async def test_many_requests_about_a_user_are_one_question(database, book):
    await asyncio.gather(*(database.look(["ann"]) for _ in range(100)))
    assert book.asked == [("ann", True)]


async def test_the_number_of_answers_and_questions_is_bounded(database, book, monkeypatch):
    monkeypatch.setattr(user_database, "MOST_KNOWN", 10)
    await database.look([f"u{number}" for number in range(10)])
    await database.look(["one more"])
    assert len(database._answers) == 10
    monkeypatch.setattr(user_database, "MOST_WAITING", 3)
    monkeypatch.setattr(user_database, "ANSWER_S", 0.05)
    book.is_open.clear()
    with pytest.raises(Unavailable):
        await database.look([f"v{number}" for number in range(10)])
    assert len(database._waiting) == 3


async def test_a_failing_look_up_is_no_answer(database, book, monkeypatch):
    monkeypatch.setattr(user_database, "ANSWER_S", 0.05)
    book.users = None
    with pytest.raises(Unavailable):
        await database.look(["ann"])
    book.users = {}
    assert await database.look(["ann"]) == {"ann": HostUser(None)}, "the threads go on"
