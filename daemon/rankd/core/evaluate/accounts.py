"""The association that a job of a document is charged to, and the tree of all associations.

The document's ``unknown_association`` is the rule for users without an association. With ``zero``, no association is
made here, unlike at a submission. The job has fair share 0, and the numbers of other users do not change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from rankd.core.errors import ConfigurationError, Refused
from rankd.core.evaluate.document import UnknownAssociation
from rankd.core.fairshare.tree import AccountTree
from rankd.core.model.association import Association

DEFAULT_ACCOUNT = "default"

Pair = tuple[str, str]


class Accounts(msgspec.Struct, frozen=True):
    """The tree of the listed associations, and the rule for users who are not in it."""

    listed: Sequence[Association]
    tree: AccountTree
    rule: UnknownAssociation
    opened: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, listed: Sequence[Association], rule: UnknownAssociation, opened: Collection[str] = frozenset()
    ) -> Accounts:
        """The accounts of a document. ``opened``: those with an access list, which decides who may charge them.

        Raises:
            ConfigurationError: with every problem of the tree.
        """
        return cls(listed, build_tree(listed), rule, frozenset(opened))

    def resolve(self, account: str | None, user: str | None) -> Pair | None:
        """The association (account, user) of a job. None if it has none and the rule allows that.

        Raises:
            Refused: ``unknown_account``, ``unknown_association``.
        """
        wanted = account or self.tree.default_account(user or "")
        if wanted is None:
            return self._newcomer(user)
        if user and (wanted, user) in self.tree.user_indices:
            return wanted, user
        if self.rule == "default" and wanted == DEFAULT_ACCOUNT and user:
            return wanted, user
        if wanted not in self.tree.account_nodes:
            known = ", ".join(self.tree.accounts[:20])
            raise Refused("unknown_account", f"unknown account '{wanted}'; known: {known}", "account")
        if self.rule == "zero" or not user:
            return None
        if wanted in self.opened:
            return wanted, user
        message = f"user '{user}' is not in account '{wanted}'; give one of the user's own accounts, or leave it out"
        raise Refused("unknown_association", message, "account")

    def _newcomer(self, user: str | None) -> Pair | None:
        """The association of a user who is in no account and gives none."""
        if self.rule == "refuse":
            raise Refused("unknown_association", f"user '{user}' is in no account; list it in associations", "user")
        return (DEFAULT_ACCOUNT, user) if self.rule == "default" and user else None

    def with_newcomers(self, pairs: Iterable[Pair]) -> Accounts:
        """The accounts, with one share for each of these users who is not listed."""
        known: Mapping[Pair, int] = self.tree.user_indices
        new = [pair for pair in dict.fromkeys(pairs) if pair not in known]
        if not new:
            return self
        missing = {account for account, _ in new} - self.tree.account_nodes.keys()
        account = [Association(account=name) for name in sorted(missing)]
        users = [Association(account=account, user=user) for account, user in new]
        listed = [*self.listed, *account, *users]
        return Accounts(listed, build_tree(listed), self.rule, self.opened)


def build_tree(listed: Sequence[Association]) -> AccountTree:
    """The tree of a document's associations.

    Raises:
        ConfigurationError: with paths that begin with ``$``.
    """
    try:
        return AccountTree.build(listed)
    except ConfigurationError as error:
        raise ConfigurationError([problem._replace(path=f"$.{problem.path}") for problem in error.problems]) from None
