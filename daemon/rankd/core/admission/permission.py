"""Who may do what: one table and one function for all verbs. ``docs/security.md`` shows the same table.

Access lists of queues, QoS, classes and accounts are decided in :mod:`.rights`; who counts as an administrator or
operator is decided in :mod:`.standing`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rankd.core.errors import Refused, admins_only
from rankd.core.near_name import cut

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rankd.core.admission.submitter import Submitter


class Circle(StrEnum):
    """Who may do an action. Administrators may do everything."""

    EVERYONE = "everyone"
    VIEWERS = "viewers"
    """The owner. Other users as far as ``[privacy] jobs`` lets them see."""
    OWNER = "owner"
    QUEUE = "queue"
    """The owner, and who administers the job's queue."""
    OPERATORS = "operators"
    ADMINISTRATORS = "administrators"


class Rule(NamedTuple):
    """Who may do an action; how a refusal calls it (by its name, if ``words`` is empty), and the field it is about."""

    circle: Circle
    words: str = ""
    field: str | None = None


RULES: Mapping[str, Rule] = {
    "job.submit": Rule(Circle.OWNER),
    "job.submit urgency": Rule(Circle.ADMINISTRATORS, "an urgency over 16", "urgency"),
    "job.test": Rule(Circle.OWNER),
    "job.cancel": Rule(Circle.QUEUE),
    "job.hold": Rule(Circle.QUEUE),
    "job.release": Rule(Circle.QUEUE),
    "job.release of an administrator's hold": Rule(Circle.ADMINISTRATORS),
    "job.retry": Rule(Circle.OWNER),
    "job.signal": Rule(Circle.OWNER),
    "job.update": Rule(Circle.QUEUE),
    "job.update fixed_priority": Rule(Circle.ADMINISTRATORS, "fixing a job's priority", "fixed_priority"),
    "job.show": Rule(Circle.VIEWERS),
    "job.show env": Rule(Circle.OWNER),
    "job.script": Rule(Circle.OWNER),
    "job.log": Rule(Circle.OWNER),
    "job.attach": Rule(Circle.OWNER),
    "job.why": Rule(Circle.VIEWERS),
    "job.when": Rule(Circle.VIEWERS),
    "job.history": Rule(Circle.VIEWERS),
    "job.list": Rule(Circle.VIEWERS),
    "job.acct": Rule(Circle.VIEWERS),
    "priority.list": Rule(Circle.VIEWERS),
    "job.events": Rule(Circle.OWNER),
    "deadletter.list": Rule(Circle.OWNER),
    "deadletter.retry": Rule(Circle.OWNER),
    "deadletter.drop": Rule(Circle.OWNER),
    "report.make": Rule(Circle.EVERYONE),
    "report.make gap": Rule(Circle.VIEWERS, "the report 'gap', which shows jobs of all users,", "kind"),
    "report.make whatif": Rule(Circle.VIEWERS, "the report 'whatif', which shows jobs of all users,", "kind"),
    "report.make files": Rule(Circle.ADMINISTRATORS, "whatif with another configuration", "files"),
    "report.make dump": Rule(Circle.ADMINISTRATORS, "the report 'dump'", "kind"),
    "report.make replay": Rule(Circle.ADMINISTRATORS, "the report 'replay'", "kind"),
    "report.make reload": Rule(Circle.ADMINISTRATORS, "the report 'reload'", "kind"),
    "report.make configurations": Rule(Circle.ADMINISTRATORS, "the report 'configurations'", "kind"),
    "report.part": Rule(Circle.EVERYONE),
    "page.look": Rule(Circle.EVERYONE),
    "page.look for the page": Rule(Circle.ADMINISTRATORS, "what only the page itself looks at", "look"),
    "site.show": Rule(Circle.EVERYONE),
    "schema.show": Rule(Circle.EVERYONE),
    "node.list": Rule(Circle.EVERYONE),
    "device.list": Rule(Circle.EVERYONE),
    "queue.list": Rule(Circle.EVERYONE),
    "share.list": Rule(Circle.EVERYONE),
    "service.list": Rule(Circle.EVERYONE),
    "diag.show": Rule(Circle.EVERYONE),
    "diag.show reset": Rule(Circle.ADMINISTRATORS, "resetting what services count", "reset"),
    "class.list": Rule(Circle.EVERYONE),
    "class.show": Rule(Circle.EVERYONE),
    "class.create": Rule(Circle.ADMINISTRATORS),
    "class.update": Rule(Circle.ADMINISTRATORS),
    "class.delete": Rule(Circle.ADMINISTRATORS),
    "node.drain": Rule(Circle.OPERATORS),
    "node.resume": Rule(Circle.OPERATORS),
    "node.undrain": Rule(Circle.OPERATORS),
    "node.device_drain": Rule(Circle.OPERATORS),
    "node.device_resume": Rule(Circle.OPERATORS),
    "node.device_fail": Rule(Circle.OPERATORS),
    "config.reload": Rule(Circle.ADMINISTRATORS),
    "stream.check": Rule(Circle.ADMINISTRATORS),
    "stream.rebuild": Rule(Circle.ADMINISTRATORS),
}
"""The rule of each action: a verb, or a verb with something special in its request."""


class Owned(Protocol):
    """What an action is about, if it belongs to a user."""

    @property
    def owner(self) -> str:
        """The user."""

    def is_administered_by(self, asker: Submitter) -> bool:
        """Whether it is in a queue that the asker administers."""

    def refusal(self, asker: Submitter) -> Refused:
        """What an asker is told who may not do it."""


class OwnedJob(NamedTuple):
    """An existing job, by its id or its name. ``queue``: partition and path, for actions of queues' administrators."""

    id: int | str
    owner: str
    queue: tuple[str, str] | None = None

    def is_administered_by(self, asker: Submitter) -> bool:
        """See :class:`Owned`."""
        return self.queue is not None and asker.queues is not None and asker.queues.has(*self.queue)

    def refusal(self, asker: Submitter) -> Refused:
        """``not_owner``. It names the owner only to those who may see that."""
        whose = f"'{self.owner}'" if asker.sees == "all" else "another user"
        message = f"job {self.id} belongs to {whose}; only its owner or an administrator may do that"
        return Refused("not_owner", message, "id", status=403)


class ThingsOf(NamedTuple):
    """What a request names by its user. ``doing`` begins the refusal: ``changing jobs``."""

    owner: str
    doing: str

    def is_administered_by(self, asker: Submitter) -> bool:
        """Whether some of them may be. Each job is decided by itself then."""
        return asker.queues is not None and asker.queues.is_any()

    def refusal(self, asker: Submitter) -> Refused:
        """``admins_only``."""
        return admins_only(f"{self.doing} of '{cut(self.owner)}'", asker.user, "users")


class OwnedLetter(NamedTuple):
    """A dead letter."""

    id: int
    owner: str

    def is_administered_by(self, asker: Submitter) -> bool:
        """Never: it is in no queue."""
        del asker
        return False

    def refusal(self, asker: Submitter) -> Refused:
        """``unknown_dead_letter``, as for a letter that does not exist."""
        del asker
        return unknown_letter(self.id)


class NewJob(NamedTuple):
    """A job that is submitted for this user."""

    owner: str

    def is_administered_by(self, asker: Submitter) -> bool:
        """Never: only administrators submit for others."""
        del asker
        return False

    def refusal(self, asker: Submitter) -> Refused:
        """``user_mismatch``."""
        message = f"the job says user '{cut(self.owner)}', but '{asker.user}' asks; leave the field out"
        return Refused("user_mismatch", message, "user", status=403)


def unknown_letter(id_: int) -> Refused:
    """The refusal of a dead letter that the asker does not have."""
    return Refused("unknown_dead_letter", f"there is no dead letter {id_} of yours; see `rankd deadletter list`", "ids")


def may(asker: Submitter, action: str, of: Owned | None = None) -> Refused | None:
    """None if this asker may do this; otherwise the refusal. ``of``: what the action is about, if it has an owner."""
    rule = RULES[action]
    if asker.privileged or rule.circle is Circle.EVERYONE:
        return None
    if rule.circle is Circle.ADMINISTRATORS:
        return admins_only(rule.words or action, asker.user, rule.field)
    if rule.circle is Circle.OPERATORS:
        return None if asker.is_operator else _operators_only(action, asker.user)
    if rule.circle is Circle.VIEWERS and asker.sees == "all":
        return None
    if of is not None:
        is_allowed = of.owner == asker.user or (rule.circle is Circle.QUEUE and of.is_administered_by(asker))
        return None if is_allowed else of.refusal(asker)
    return admins_only(rule.words, asker.user, rule.field) if rule.words else None


def check(asker: Submitter, action: str, of: Owned | None = None) -> None:
    """Raise the refusal of :func:`may`.

    Raises:
        Refused: this asker may not do this.
    """
    if refusal := may(asker, action, of):
        raise refusal


def _operators_only(action: str, user: str) -> Refused:
    message = (
        f"{action} is for operators and administrators; '{user}' asked as an ordinary user"
        " (--admin asks as an administrator)"
    )
    return Refused("admins_only", message, status=403)
