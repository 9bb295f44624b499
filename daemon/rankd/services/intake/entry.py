"""Who asks, and with which rights: decided for each request, by its subject and the configuration in force."""

from __future__ import annotations

from collections.abc import Callable

from rankd.config.configuration import Configuration
from rankd.core.admission.standing import Said, has_rights, standing
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Unavailable
from rankd.services.intake.gateways import Gateways
from rankd.services.intake.host_groups import HostGroupsOfUsers
from rankd.services.intake.rests import Rests
from rankd.wire.subject import HEAD, WEB, Asker, asker_of, is_claiming


class Entry:
    """``configuration`` returns the one in force."""

    def __init__(self, configuration: Callable[[], Configuration], groups: HostGroupsOfUsers, rests: Rests) -> None:
        self._configuration = configuration
        self._groups = groups
        self._rests = rests
        self.gateways = Gateways(self._has_rights, lambda: configuration().settings.web.signs_in_others)

    async def enter(self, subject: str, verb: str) -> Submitter:
        """The asker of a request for this verb.

        Raises:
            Refused: ``admins_only``, ``unknown_gateway``, ``not_permitted``.
            Unavailable: ``user_database_silent``: whether the asker has more rights can't be known, and it matters.
        """
        asker, claims = asker_of(subject), is_claiming(subject)
        self._rests.note(asker.user)
        if not asker.privileged:
            await self._learn_groups(asker, claims=claims)
        self.gateways.check(asker)
        said = Said(asker.user, asker.privileged, claims, asker.via)
        return standing(said, verb, self._configuration().settings, self._groups.of_staff)

    async def _learn_groups(self, asker: Asker, *, claims: bool) -> None:
        """Without an answer, the asker has an ordinary user's rights. A node's gateway may not name anybody else."""
        try:
            await self._groups.need_staff(asker.user)
        except Unavailable:
            if claims or asker.via not in (None, HEAD, WEB):
                raise

    def _has_rights(self, user: str) -> bool:
        return has_rights(user, self._configuration().settings, self._groups.of_staff)
