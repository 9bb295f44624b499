"""The gateways that the intake listens to: that of the head, and those of nodes that an administrator trusts."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from rankd.core.admission.gateway_rule import check_gateway
from rankd.core.errors import RankdError
from rankd.identity.credentials import read_credentials
from rankd.identity.trusted_node import TRUSTED_FILE, read_trusted
from rankd.wire.subject import HEAD, Asker

log = logging.getLogger("rankd.intake")

OWNERS_CREDENTIALS = "admin.creds"


class Gateways:
    """``has_rights``: whether the configuration gives a user more rights than others. The site's owner has them."""

    def __init__(self, has_rights: Callable[[str], bool]) -> None:
        self._has_rights = has_rights
        self._site: Path | None = None
        self._stamp: tuple[int, int] | None = None
        self._trusted: frozenset[str] = frozenset()
        self._owner: str | None = None

    def use(self, site: Path) -> None:
        """Listen to the gateways of the nodes that this directory lists; until then, to that of the head only."""
        self._site = site
        with suppress(RankdError, ValueError):  # a site whose owner has no credentials here
            self._owner = read_credentials(site / OWNERS_CREDENTIALS).claims().name

    def check(self, asker: Asker) -> None:
        """Check that the gateway may ask for this user.

        Raises:
            Refused: ``unknown_gateway``, ``not_permitted``.
        """
        if asker.via is None or asker.via == HEAD:
            return
        has_rights = asker.user == self._owner or self._has_rights(asker.user)
        check_gateway(asker.via, asker.user, self._present(), has_rights=has_rights)

    def _present(self) -> frozenset[str]:
        """The trusted nodes; the list is read again when it has changed."""
        if self._site is None:
            return frozenset()
        try:
            status = (self._site / TRUSTED_FILE).stat()
            stamp = status.st_ino, status.st_mtime_ns
        except OSError:
            stamp = None
        if stamp != self._stamp:
            self._trusted = self._read(self._site)
            self._stamp = stamp
        return self._trusted

    @staticmethod
    def _read(site: Path) -> frozenset[str]:
        try:
            return frozenset(name for name, is_trusted in read_trusted(site).items() if is_trusted)
        except (RankdError, OSError) as error:  # nobody is trusted until it can be read
            log.error("the list of trusted nodes can't be read: %s", error)  # noqa: TRY400
            return frozenset()
