"""What the gateway signs with: the site as it is now, and the broker, which has to know each account.

Commands of the administrator write revocations and the register while this process runs. Both files are read again
when they change: what is signed with older ones would give back what was taken.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from rankd.bus.account_update import update_accounts
from rankd.bus.connection import Bus
from rankd.core.errors import Refused, Unavailable
from rankd.identity.register import Register
from rankd.identity.register_file import REGISTER_FILE, change_register, read_register
from rankd.identity.site import KEY_FILE, REVOKED_FILE, Role, Site, read_site
from rankd.services.runtime.clock import Clock

log = logging.getLogger("rankd.gateway")

AT_ONCE = 64
"""Accounts that the broker is given side by side."""
AGAIN_S = 1.0
FILES = (KEY_FILE, REVOKED_FILE, REGISTER_FILE)

Stamp = tuple[tuple[int, int] | None, ...]


class Issuer:
    """The site, the register, and the accounts that the broker has from us.

    Raises:
        Refused: ``bad_secret``, ``bad_register``: a file holds something else.
        OSError: the directory can't be read.
    """

    def __init__(self, directory: Path, system: Bus) -> None:
        self._directory = directory
        self._system = system
        self._stamp = self._stamp_now()
        self._site, self._register = read_site(directory), read_register(directory)
        self._known = set[tuple[Role, str]]()
        self._in_hub: frozenset[str] | None = None
        """The nodes that users may have sessions with, as we last told the broker."""
        self._forgotten = asyncio.Event()
        self._begun_at = time.time()
        system.after_reconnect.append(self._forget_accounts)

    async def _forget_accounts(self) -> None:
        """The broker was started again, perhaps without what it knew."""
        self._known.clear()
        self._in_hub = None
        self._forgotten.set()

    async def keep_known(self, clock: Clock) -> None:
        """Let the broker know everybody's account again after each of its starts, until cancelled.

        Users and nodes connect again by themselves. They are refused until the broker knows their accounts.
        """
        while True:
            await self._forgotten.wait()
            self._forgotten.clear()
            try:
                await self.admit_all(clock())
            except Unavailable as error:
                log.info("the broker does not know all accounts yet: %s", error.message)
                self._forgotten.set()
                await asyncio.sleep(AGAIN_S)

    @property
    def site(self) -> Site:
        """The site with all revocations until now."""
        self._look_again()
        return self._site

    @property
    def register(self) -> Register:
        """The register as it is now."""
        self._look_again()
        return self._register

    def _look_again(self) -> None:
        if (stamp := self._stamp_now()) != self._stamp:
            self._site, self._register = read_site(self._directory), read_register(self._directory)
            self._stamp = stamp
            self._known.clear()

    def _stamp_now(self) -> Stamp:
        return tuple(_stamp(self._directory / file) for file in FILES)

    async def change(self, change: Callable[[Register], Register]) -> Register:
        """Change the register, durably.

        Raises:
            Refused: what ``change`` raises.
            Unavailable: ``no_register``: it can't be written, such as on a full disk.
        """
        try:
            return await asyncio.to_thread(change_register, self._directory, change)
        except OSError as error:
            message = f"the register of users and nodes can't be written: {error.strerror or error}; try again"
            raise Unavailable("no_register", message) from None

    async def admit(self, role: Role, name: str, now: float) -> Site:
        """Let the broker know the account of this user or node. Returns the site that may sign for it.

        Raises:
            Refused: ``revoked``: an administrator has revoked the access.
            Unavailable: the broker does not take the account.
        """
        site = await self._make_known(role, name, now)
        await self._connect_nodes(now)
        if site.is_barred(role, name):
            message = f"an administrator has revoked the access of '{name}'; ask for it again"
            raise Refused("revoked", message, status=403)
        return site

    async def _make_known(self, role: Role, name: str, now: float) -> Site:
        """Give the broker an account that it does not have from us.

        It gets it again if something was revoked meanwhile: what we sent may have replaced the newer account.
        """
        site = self.site
        while (role, name) not in self._known:
            await update_accounts(self._system, [site.account(role, name, self._later(now))])
            self._known.add((role, name))
            site = self.site
        return site

    async def admit_all(self, now: float) -> None:
        """Let the broker know everybody's account: it may be a new one, or older than what a role reaches today.

        Raises:
            Unavailable: the broker does not take an account.
        """
        members = [(one.role, one.name) for one in self.register.members.values()]
        for part in _parts(members, AT_ONCE):
            await asyncio.gather(*(self._make_known(role, name, now) for role, name in part))
        await self._connect_nodes(now)

    async def _connect_nodes(self, now: float) -> None:
        """Let users have sessions with every node that the register lists or that was let in."""
        site = self.site.with_nodes(name for role, name in self._known if role is Role.NODE)
        if site.nodes != self._in_hub:
            await update_accounts(self._system, [site.account(Role.SESSIONS, "", self._later(now))])
            self._in_hub = site.nodes

    def _later(self, now: float) -> float:
        """The time of an account's token: in a later second than this process began.

        A broker that starts again has two tokens of an account: that of its configuration, made just before this
        process began, and the last one that it got. It uses the one of the later second.
        """
        return max(now, self._begun_at + 1.0)


def _parts(members: list[tuple[Role, str]], size: int) -> Iterable[list[tuple[Role, str]]]:
    return (members[first : first + size] for first in range(0, len(members), size))


def _stamp(path: Path) -> tuple[int, int] | None:
    """What changes whenever a file is replaced; None without one."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns
