"""Who asks, and with which rights: decided for each request, by its subject and the configuration in force."""

from __future__ import annotations

from collections.abc import Callable

from rankd.config.configuration import Configuration
from rankd.core.admission.standing import Said, has_rights, standing
from rankd.core.admission.submitter import Submitter
from rankd.services.intake.gateways import Gateways
from rankd.wire.subject import asker_of, is_claiming


class Entry:
    """``configuration`` returns the one in force."""

    def __init__(self, configuration: Callable[[], Configuration]) -> None:
        self._configuration = configuration
        self.gateways = Gateways(self._has_rights)

    def enter(self, subject: str, verb: str) -> Submitter:
        """The asker of a request for this verb.

        Raises:
            Refused: ``admins_only``, ``unknown_gateway``, ``not_permitted``.
        """
        asker, present = asker_of(subject), self._configuration()
        self.gateways.check(asker)
        said = Said(asker.user, asker.privileged, is_claiming(subject), asker.via)
        return standing(said, verb, present.settings, present.groups)

    def _has_rights(self, user: str) -> bool:
        present = self._configuration()
        return has_rights(user, present.settings, present.groups)
