"""The head's user database: ids and groups of users, looked up in threads of its own.

The database may be on a network and answer after minutes, or never. A thread that waits for it can't be ended, so there
is a small fixed number of them, and they don't delay the end of the process. A request waits for a short time. Then a
user's last answer counts for an hour, and a user without one is asked to try again.
"""

from __future__ import annotations

import asyncio
import grp
import logging
import os
import pwd
import threading
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import NamedTuple

from rankd.core.errors import Unavailable
from rankd.core.near_name import cut

log = logging.getLogger("rankd.intake")

FRESH_S = 60.0
"""How long an answer of the user database is used again."""
USABLE_S = 3_600.0
"""How long an answer is used while the user database gives no newer one."""
ANSWER_S = 2.0
"""How long a request waits for the user database."""
THREADS = 2
MOST_KNOWN = 20_000
"""Users whose answers are kept. A message may name 10,000 of them."""
MOST_WAITING = 20_000
MOST_GROUPS = 1_000
"""Groups of a user. Those after them, in the order of their ids, do not count."""


class HostUser(NamedTuple):
    """A user of this machine. ``uid`` is None if it has no such user; ``groups`` are sorted names."""

    uid: int | None
    groups: tuple[str, ...] = ()


class _Answer(NamedTuple):
    """``at``: when it came, of the monotonic clock. ``has_groups``: whether the groups were looked up."""

    user: HostUser
    at: float
    has_groups: bool


Look = Callable[[str, bool], HostUser]
"""Returns a user, the groups too if the second argument says so. May block."""


def look_up(user: str, with_groups: bool) -> HostUser:
    """The user by this process's user database. Blocks."""
    try:
        entry = pwd.getpwnam(user)
    except (KeyError, ValueError):
        return HostUser(None)
    if not with_groups:
        return HostUser(entry.pw_uid)
    ids = sorted(set(os.getgrouplist(user, entry.pw_gid)))
    if len(ids) > MOST_GROUPS:
        log.warning("user %r is in %d groups; the first %d count", user, len(ids), MOST_GROUPS)
    return HostUser(entry.pw_uid, tuple(sorted(_names(ids[:MOST_GROUPS]))))


def _names(ids: Iterable[int]) -> set[str]:
    names = set()
    for id_ in ids:
        with suppress(KeyError):  # a group without a name can't be in any list
            names.add(grp.getgrgid(id_).gr_name)
    return names


class UserDatabase:
    """Answers about users, with a cache. ``with_groups``: whether answers have groups from now on."""

    def __init__(self, look: Look = look_up) -> None:
        self.with_groups = False
        self._look = look
        self._loop = asyncio.get_running_loop()
        self._answers: dict[str, _Answer] = {}
        """The oldest answer first."""
        self._waiting: dict[tuple[str, bool], asyncio.Future[HostUser | None]] = {}
        self._questions: SimpleQueue[tuple[str, bool] | None] = SimpleQueue()
        self._busy_since: list[float | None] = []
        """For each thread: since when it works on its present question."""

    def close(self) -> None:
        """Let threads end that wait for a question. The others end with the process."""
        for _ in self._busy_since:
            self._questions.put(None)

    async def look(self, users: Collection[str]) -> dict[str, HostUser]:
        """These users, as the database knew them at most a minute ago, or an hour ago if it is silent.

        Raises:
            Unavailable: ``user_database_silent``: there is no answer about one of them.
        """
        now = time.monotonic()
        found = {user: answer for user in users if (answer := self._answer_of(user, now, FRESH_S)) is not None}
        if len(found) < len(users):
            await self._ask([user for user in users if user not in found])
            now = time.monotonic()
            for user in users:
                answer = self._answer_of(user, now, USABLE_S)
                if answer is None:
                    raise _silent(user)
                found[user] = answer
        return found

    def _answer_of(self, user: str, now: float, lasts_s: float) -> HostUser | None:
        answer = self._answers.get(user)
        if answer is None or now - answer.at > lasts_s or (self.with_groups and not answer.has_groups):
            return None
        return answer.user

    async def _ask(self, users: Iterable[str]) -> None:
        """Ask about these users, and wait for the answers if some may come soon."""
        asked = [future for user in users if (future := self._question(user, self.with_groups)) is not None]
        if asked and not self._is_stuck():
            await asyncio.wait(asked, timeout=ANSWER_S)

    def _question(self, user: str, with_groups: bool) -> asyncio.Future[HostUser | None] | None:
        key = user, with_groups
        if (waiting := self._waiting.get(key)) is not None:
            return waiting
        if len(self._waiting) >= MOST_WAITING:
            return None
        if not self._busy_since:
            self._start()
        self._waiting[key] = future = self._loop.create_future()
        self._questions.put(key)
        return future

    def _start(self) -> None:
        self._busy_since = [None] * THREADS
        for number in range(THREADS):
            threading.Thread(target=self._work, args=[number], name=f"users-{number}", daemon=True).start()

    def _is_stuck(self) -> bool:
        """Whether no thread is free, and each has waited for longer than a request would."""
        latest = time.monotonic() - ANSWER_S
        return all(since is not None and since < latest for since in self._busy_since)

    def _work(self, number: int) -> None:
        """Answer questions, in a thread."""
        while (question := self._questions.get()) is not None:
            self._busy_since[number] = time.monotonic()
            try:
                found = self._look(*question)
            except Exception:
                log.exception("user %r can't be looked up", question[0])
                found = None
            self._busy_since[number] = None
            try:
                self._loop.call_soon_threadsafe(partial(self._take, question, found))
            except RuntimeError:  # the process ends
                return

    def _take(self, question: tuple[str, bool], found: HostUser | None) -> None:
        user, has_groups = question
        future = self._waiting.pop(question)
        if not future.done():
            future.set_result(found)
        if found is None:
            return
        self._answers.pop(user, None)
        self._answers[user] = _Answer(found, time.monotonic(), has_groups)
        if len(self._answers) > MOST_KNOWN:
            del self._answers[next(iter(self._answers))]


def _silent(user: str) -> Unavailable:
    message = f"the user database of the head does not answer about '{cut(user)}'; try again in a minute"
    return Unavailable("user_database_silent", message)
