"""The values that a cycle looks up once for all jobs of a kind in a leaf."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rankd.core.model.device import model_of
from rankd.core.model.quantity import scaled
from rankd.core.placement.kind_table import KindTable
from rankd.core.placement.node_index import Finder, OnlyNode
from rankd.core.placement.node_set import Demand
from rankd.core.placement.node_table import NodeTable
from rankd.core.placement.quota import Account, Application, QuotaBook, application_of
from rankd.core.placement.request import Kind
from rankd.core.placement.shortest_first import Turn


class Case:
    """The values of a kind of jobs in a leaf, during a cycle.

    ``least``: the amounts of its ``min_nodes`` nodes together. ``accounts``: the accounts that it is charged to, see
    :meth:`.QuotaBook.of`. ``is_too_large``: no node had enough free when the cycle began. ``finder`` searches nodes for
    it. ``finds_reserved``: whether that finder takes reservations into account. ``depends_on_node``: what its accounts
    are charged depends on the node, because it takes whole nodes, or devices of a model that it does not name.
    """

    __slots__ = (
        "accounts",
        "application",
        "demand",
        "depends_on_node",
        "finder",
        "finds_reserved",
        "is_too_large",
        "least",
        "limit_s",
        "shape",
    )

    def __init__(
        self,
        kind: Kind,
        demand: Demand,
        accounts: Sequence[Account],
        application: Application | None,
        *,
        is_too_large: bool,
    ) -> None:
        self.shape = kind.shape
        self.limit_s = math.inf if kind.time_limit_s is None else kind.time_limit_s
        self.demand = demand
        self.least = scaled(kind.shape.resources, kind.shape.min_nodes)
        self.accounts = accounts
        self.application = application
        self.is_too_large = is_too_large
        limits_models = any(model_of(limited) for account in accounts for limited in account.room)
        self.depends_on_node = kind.shape.exclusive or (demand.of_any_model and limits_models)
        self.finder: Finder | OnlyNode | None = None
        self.finds_reserved = False


class Cases:
    """The cases of one cycle. ``largest``: for each column, the most that any node had free at its beginning."""

    def __init__(self, kinds: KindTable, table: NodeTable, quotas: QuotaBook, largest: Sequence[int]) -> None:
        self._kinds = kinds
        self._table = table
        self._quotas = quotas
        self._largest = largest
        self._cases: dict[tuple[int, int], Case] = {}
        self._too_large: dict[int, bool] = {}

    def of(self, turn: Turn) -> Case:
        """The case of a job."""
        key = (turn.queue, turn.kind)
        case = self._cases.get(key)
        if case is None:
            kind = self._kinds[turn.kind]
            demand = self._table.demand(kind.shape)
            case = self._cases[key] = Case(
                kind,
                demand,
                self._quotas.of(turn.queue, kind),
                application_of(turn.queue, kind),
                is_too_large=self._is_too_large(demand),
            )
        return case

    def _is_too_large(self, demand: Demand) -> bool:
        """Whether the demand is larger, in any type, than the most that any node had free at the beginning."""
        found = self._too_large.get(id(demand))
        if found is None:
            largest = self._largest
            found = self._too_large[id(demand)] = any(amount > largest[column] for column, amount in demand.pairs)
        return found
