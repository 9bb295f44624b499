"""Groups of users about whom the configuration says none: those of the head's user database.

They are recorded when they change, so that commands which look at the records use the groups that the intake used.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping

import msgspec

from rankd.config.configuration import Configuration
from rankd.core.admission.admit import AdmissionTables
from rankd.core.admission.user_group import Groups, UserGroups, lists_groups, makes_staff_by_group, own_groups
from rankd.services.intake.user_database import UserDatabase

MOST_KNOWN = 20_000
"""Users whose groups are kept. A message may name 10,000 of them."""

Keep = Callable[[Mapping[str, Groups]], Awaitable[None]]
"""Records the groups of these users."""


class HostGroupsOfUsers:
    """``keep`` records changed groups; ``changed`` is called when groups of a user are others than before."""

    def __init__(self, users: UserDatabase, keep: Keep, changed: Callable[[], None]) -> None:
        self._users = users
        self._keep = keep
        self._changed = changed
        self._stated: Mapping[str, Groups] = {}
        self._own: frozenset[str] = frozenset()
        self._known: dict[str, Groups] = {}
        self._recorded: dict[str, Groups] = {}
        self.is_needed = self._is_needed_for_staff = False
        self.of_users: Mapping[str, Groups] = {}
        """For access lists and limits."""
        self.of_staff: Mapping[str, Groups] = {}
        """For the question who is an administrator or operator."""

    def start(self, recorded: Mapping[str, Groups]) -> None:
        """``recorded``: the groups in the records. They are only compared with, since they may be old."""
        self._recorded = dict(recorded)

    def use(self, configuration: Configuration, tables: AdmissionTables) -> AdmissionTables:
        """The tables with the groups that count by this configuration."""
        rule, self._stated = configuration.settings.admission, configuration.groups
        own = own_groups(configuration.group_names, configuration.groups)
        if own != self._own:
            self._own = own
            self._known.clear()
        both = UserGroups(self._stated, self._known)
        self.of_users = self._stated if rule.host_groups == "none" else both
        self.of_staff = both if rule.host_groups == "all" else self._stated
        self._is_needed_for_staff = rule.host_groups == "all" and makes_staff_by_group(tables.queues, rule, own)
        self.is_needed = rule.host_groups != "none" and lists_groups(tables.queues, tables.rights, own)
        self._users.with_groups = self.is_needed or self._is_needed_for_staff
        return msgspec.structs.replace(tables, groups=self.of_users)

    async def need(self, users: Collection[str]) -> bool:
        """Look up the users of a job, if a list or limit names a group. Returns whether groups have changed.

        Raises:
            Unavailable: ``user_database_silent``: the user database does not answer.
        """
        return self.is_needed and await self._look_up(users)

    async def need_staff(self, user: str) -> None:
        """Look up somebody who asks, if groups may give more rights.

        Raises:
            Unavailable: as :meth:`need`.
        """
        if self._is_needed_for_staff:
            await self._look_up([user])

    async def _look_up(self, users: Collection[str]) -> bool:
        asked = [user for user in dict.fromkeys(users) if not self._stated.get(user)]
        if not asked:
            return False
        answers = await self._users.look(asked)
        found = {user: tuple(name for name in one.groups if name not in self._own) for user, one in answers.items()}
        changed = {user: groups for user, groups in found.items() if self._known.get(user) != groups}
        await self._record(changed)
        self._remember(found)
        if changed:
            self._changed()
        return bool(changed)

    async def _record(self, groups: Mapping[str, Groups]) -> None:
        new = {user: names for user, names in groups.items() if self._recorded.get(user, ()) != names}
        if new:
            await self._keep(new)
            self._recorded.update(new)

    def _remember(self, groups: Mapping[str, Groups]) -> None:
        """Keep them, and forget users who were not needed for the longest time."""
        for user, names in groups.items():
            self._known.pop(user, None)
            self._known[user] = names
        while len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]
