"""The gateways that the intake listens to: that of the head, and those of nodes that an administrator trusts."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from rankd.core.admission.gateway_rule import check_gateway, check_page
from rankd.core.errors import RankdError
from rankd.identity.credentials import read_credentials
from rankd.identity.site import REVOKED_FILE, read_barred_users
from rankd.identity.trusted_node import TRUSTED_FILE, read_trusted
from rankd.wire.subject import HEAD, WEB, Asker

log = logging.getLogger("rankd.intake")

OWNERS_CREDENTIALS = "admin.creds"
NOBODY: tuple[frozenset[str], frozenset[str]] = frozenset(), frozenset()


class Gateways:
    """``has_rights``: whether the configuration gives a user more rights than others. The site's owner has them.

    ``signs_in_others``: whether the configuration lets the page sign in others than the owner.
    """

    def __init__(self, has_rights: Callable[[str], bool], signs_in_others: Callable[[], bool] = lambda: False) -> None:
        self._has_rights = has_rights
        self._signs_in_others = signs_in_others
        self._site: Path | None = None
        self._stamps: list[tuple[int, int] | None] = []
        self._lists = NOBODY
        self._owner: str | None = None

    def use(self, site: Path) -> None:
        """Listen to the gateways of the nodes that this directory lists; until then, to that of the head only."""
        self._site = site
        with suppress(RankdError, ValueError):  # a site whose owner has no credentials here
            self._owner = read_credentials(site / OWNERS_CREDENTIALS).claims().name

    def has_accounts(self) -> bool:
        """Whether the broker knows who asks, so that what a gateway says counts."""
        return self._site is not None

    def check(self, asker: Asker) -> None:
        """Check that the gateway may ask for this user.

        Raises:
            Refused: ``unknown_gateway``, ``revoked``, ``not_permitted``.
        """
        if asker.via is None or asker.via == HEAD:
            return
        trusted, barred = self._present()
        if asker.via == WEB:
            check_page(asker.user, self._owner, barred, signs_in_others=self._signs_in_others())
            return
        has_rights = asker.user == self._owner or self._has_rights(asker.user)
        check_gateway(asker.via, asker.user, trusted, barred, has_rights=has_rights)

    def _present(self) -> tuple[frozenset[str], frozenset[str]]:
        """The trusted nodes, and the users whose access was revoked; read again when a file has changed."""
        if self._site is None:
            return NOBODY
        stamps = [_stamp(self._site / file) for file in (TRUSTED_FILE, REVOKED_FILE)]
        if stamps != self._stamps:
            self._lists = _read(self._site)
            self._stamps = stamps
        return self._lists


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _read(site: Path) -> tuple[frozenset[str], frozenset[str]]:
    try:
        trusted = frozenset(name for name, is_trusted in read_trusted(site).items() if is_trusted)
        return trusted, read_barred_users(site)
    except (RankdError, OSError) as error:  # no node is trusted until both can be read
        log.error("the lists of trusted nodes and of revoked users can't be read: %s", error)  # noqa: TRY400
        return NOBODY
