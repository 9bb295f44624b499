"""Signing in with a name and a password, which a process of its own checks by PAM.

Every failure gets the same message after the same time. It does not depend on the cause: no such user, a wrong
password, a closed account, a user who may not use rankd.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time

import msgspec

from rankd.core.errors import RankdError, Refused, Unavailable
from rankd.core.printable import printable
from rankd.plugin.interpreter import python_command, python_environment
from rankd.services.web.attempts import Attempts
from rankd.services.web.pam_check import Question

log = logging.getLogger("rankd.web")

MOST_AT_ONCE = 4
"""Processes that check at a time."""
MOST_WAITING = 32
LIMIT_S = 20.0
"""Seconds that a check may take; then its process is ended."""
FAILED_S = 3.0
"""The time from the beginning of a failed attempt to its answer."""
LONGEST_NAME, LONGEST_PASSWORD = 256, 1_024


class Passwords:
    """Checks passwords, at most some at a time, and not too many of one name or from one address."""

    def __init__(self) -> None:
        self.attempts = Attempts()
        self._room = asyncio.Semaphore(MOST_AT_ONCE)
        self._waiting = 0

    async def user(self, service: str, name: str, password: str, address: str) -> str:
        """The user whom this signs in.

        An attempt counts only if PAM has checked it. An impossible name or password does not count.

        Raises:
            Refused: ``bad_sign_in``, ``too_many_attempts``.
            Unavailable: ``busy``, ``no_pam``.
        """
        begun = time.monotonic()
        question = Question(service=service, user=name, password=password, address=address)
        if not _is_possible(question):
            raise await failed(begun, address)
        if wait_s := self.attempts.begin(name, address, begun):
            minutes = int(wait_s // 60) + 1
            message = f"there were too many attempts to sign in; try again in {minutes} min"
            raise Refused("too_many_attempts", message, status=429)
        try:
            found = await self._checked(question)
        except Unavailable:
            self.attempts.take_back(name, address, begun)
            raise
        if found is None:
            raise await failed(begun, address)
        return found

    async def _checked(self, question: Question) -> str | None:
        if self._waiting >= MOST_WAITING:
            raise Unavailable("busy", "too many people sign in at this moment; try again in a few seconds")
        self._waiting += 1
        try:
            async with self._room:
                return await _asked(question)
        finally:
            self._waiting -= 1


async def failed(begun: float, address: str) -> Refused:
    """The refusal of every failed attempt. It waits until :data:`FAILED_S` after ``begun`` (of the monotonic clock)."""
    log.warning("somebody at %s has failed to sign in", address)
    await asyncio.sleep(begun + FAILED_S - time.monotonic())
    message = "this name and password do not sign in here; check both, or ask an administrator of this machine"
    return Refused("bad_sign_in", message, status=403)


def _is_possible(question: Question) -> bool:
    """Whether this can be a name and a password: neither is empty or long, nor has it characters that end it in C."""
    name, password = question.user, question.password
    if not 0 < len(name) <= LONGEST_NAME or not 0 < len(password) <= LONGEST_PASSWORD:
        return False
    return name.isprintable() and not any(character in password for character in "\0\r\n")


async def _asked(question: Question) -> str | None:
    """What the process says.

    Raises:
        Unavailable: ``no_pam``.
    """
    process = await asyncio.create_subprocess_exec(
        *python_command("rankd.services.web.pam_check"), stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=python_environment(os.environ),
    )  # fmt: skip
    try:
        async with asyncio.timeout(LIMIT_S):
            answer, problem = await process.communicate(msgspec.json.encode(question))
    except TimeoutError:
        log.warning("PAM has not answered within %g s", LIMIT_S)
        raise _unchecked() from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        words = printable(problem.decode(errors="replace").strip()[-500:])
        log.warning("no password can be checked (status %d): %s", process.returncode, words)
        raise _unchecked()
    return answer.decode() or None


def _unchecked() -> RankdError:
    return Unavailable("no_pam", "passwords can't be checked now; the log of the page says why")
