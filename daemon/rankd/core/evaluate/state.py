"""From a document to the structures that the daemon fills from its database: `RankingState` and what goes with it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from rankd.core.admission.dependency import Blocked, Progress, blocked_by
from rankd.core.errors import ConfigurationError, Problem
from rankd.core.evaluate.accounts import Accounts
from rankd.core.evaluate.admission import Admitted, Job
from rankd.core.evaluate.amount import add, scaled
from rankd.core.evaluate.document import Document, Id
from rankd.core.evaluate.forest import Forest
from rankd.core.evaluate.inventory import (
    Application,
    Held,
    counted_nodes,
    read_applications,
    read_held,
    read_nodes,
    read_used,
    submitted_at,
    totals,
    with_stated,
)
from rankd.core.fairshare.decay import billing_rate
from rankd.core.model.job import URGENCY_HOLD, Dependency, State
from rankd.core.model.node import Node
from rankd.core.model.quantity import VCORE, Resources
from rankd.core.model.setting import FairshareSettings, PrioritySettings, Qos, SchedulingSettings
from rankd.core.placement.request import Shape
from rankd.core.ranking.columns import NO_GROUP, FloatArray, JobColumns, JobRow
from rankd.core.ranking.order import Applications
from rankd.core.ranking.queue_forest import QueueView, queue_views
from rankd.core.ranking.ranking import Outright, RankingState, Usage

HELD = "held"
NOT_ELIGIBLE = "not eligible"


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """All that a document says, ready to be decided.

    ``reasons`` by job number: why those that are not eligible are not. ``shapes`` beside ``admitted.pending``.
    """

    document: Document
    forest: Forest
    accounts: Accounts
    admitted: Admitted
    applications: Sequence[Application]
    nodes: Sequence[Node]
    state: RankingState
    outright: Outright
    reasons: Mapping[int, str]
    shapes: Sequence[Shape]

    @property
    def settings(self) -> PrioritySettings:
        """How priorities are made."""
        return self.document.priority or PrioritySettings()


def build(document: Document, forest: Forest, accounts: Accounts, admitted: Admitted, qos: Sequence[Qos]) -> Situation:
    """The situation.

    Raises:
        ConfigurationError: amounts that are none, and names that nothing else in the document has.
    """
    problems: list[Problem] = []
    taken = [*admitted.pending, *admitted.active]
    held, nodes = read_held(document, read_nodes(document, forest, problems), admitted.active, problems)
    applications, places = read_applications(document, forest, taken, problems)
    stated = read_used(document, forest, problems)
    if problems:
        raise ConfigurationError(problems)
    accounts = accounts.with_newcomers(job.pair for job in taken if job.pair)
    sums = totals(nodes, forest)
    reasons, eligible_at = _eligibility(admitted.pending, document)
    shapes = _shapes(admitted.pending, forest)
    used_by_application = _used_by_application(held, applications, places)
    views = [queue_views(part, forest.ids, total) for part, total in zip(forest.partitions, sums, strict=True)]
    parents = {view.id: view.parent for part in views for view in part}
    pending = _pending(admitted.pending, eligible_at, applications, places)
    state = RankingState(
        jobs=_columns(admitted.pending, accounts, places, shapes, eligible_at, document),
        tree=accounts.tree,
        association_ids=np.arange(accounts.tree.n_users, dtype=np.int64),
        usage=_usage(document, accounts, held, qos),
        qos_priorities=np.array([row.priority for row in qos], dtype=np.float64),
        qos_factors=np.array([math.nan if row.factor is None else row.factor for row in qos], dtype=np.float64),
        queues=views,
        used=with_stated(_used_by_leaf(held, applications, used_by_application), stated, parents),
        shapes=[scaled(shape.resources, shape.nodes) for shape in dict.fromkeys(map(_Same, shapes))],
        totals=sums,
        partition_nodes=np.array(counted_nodes(nodes, forest), dtype=np.float64),
        partition_cores=np.array([total.get(VCORE, 0) / 1000.0 for total in sums], dtype=np.float64),
        applications=_applications(applications, used_by_application),
    )
    return Situation(
        document=document,
        forest=forest,
        accounts=accounts,
        admitted=admitted,
        applications=applications,
        nodes=nodes,
        state=state,
        outright=Outright(pending=pending, factors=_given(admitted.pending, document)),
        reasons=reasons,
        shapes=shapes,
    )
