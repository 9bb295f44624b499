"""With which rights somebody asks: what the subject of the request says, and what the configuration in force adds.

It is decided for each request. So a name that is removed from the configuration has no more rights from the next
request on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rankd.core.admission.permission import RULES, Circle
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused
from rankd.core.model.setting import Settings


class Said(NamedTuple):
    """What the subject says of the asker.

    ``is_administrator``: the broker lets administrators only publish on it. ``claims``: the asker wants the rights that
    the configuration gives to an administrator. ``via``: the gateway that vouches for the user, if one does.
    """

    user: str
    is_administrator: bool
    claims: bool = False
    via: str | None = None


def standing(said: Said, verb: str, settings: Settings, groups: Mapping[str, Sequence[str]]) -> Submitter:
    """The asker with the present rights. ``groups``: the groups of each user.

    Raises:
        Refused: ``admins_only``: the asker claims rights that the configuration does not give.
    """
    user, rule = said.user, settings.admission
    if said.is_administrator:
        return Submitter(user, privileged=True)
    if said.claims and _is_among(user, groups, rule.admins, rule.admin_groups):
        return Submitter(user, privileged=True)
    is_operator = _is_among(user, groups, rule.operators, rule.operator_groups)
    if said.claims and not (is_operator and RULES[verb].circle is Circle.OPERATORS):
        message = (
            f"{verb} as an administrator: '{user}' is not an administrator here;"
            " leave out --admin, or ask for a place in [admission] admins of rankd.toml"
        )
        raise Refused("admins_only", message, status=403)
    return Submitter(user, False, said.via, is_operator, settings.privacy.jobs)


def has_rights(user: str, settings: Settings, groups: Mapping[str, Sequence[str]]) -> bool:
    """Whether the configuration makes this user an administrator or an operator."""
    rule = settings.admission
    named, of_groups = [*rule.admins, *rule.operators], [*rule.admin_groups, *rule.operator_groups]
    return _is_among(user, groups, named, of_groups)


def _is_among(user: str, groups: Mapping[str, Sequence[str]], users: Sequence[str], of_groups: Sequence[str]) -> bool:
    return user in users or (bool(of_groups) and not set(of_groups).isdisjoint(groups.get(user, ())))
