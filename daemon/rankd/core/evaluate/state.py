"""From a document to the structures that the daemon fills from its database: `RankingState` and related ones.

Usage: an association's ``usage`` includes the use of running jobs up to its ``usage_at``. From ``usage_at`` on, or from
their start if that is later, running jobs are charged continuously, as everywhere in rankd. Usage without ``usage_at``
is that of ``now``, so nothing is added to it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from rankd.core.errors import ConfigurationError, Problem
from rankd.core.evaluate.accounts import Accounts
from rankd.core.evaluate.admission import Admitted, Job
from rankd.core.evaluate.application import ApplicationBook, read_applications
from rankd.core.evaluate.document import Document
from rankd.core.evaluate.eligibility import Verdict, judge, submitted_at
from rankd.core.evaluate.inventory import Inventory, read_inventory
from rankd.core.evaluate.queue_catalogue import QueueCatalogue
from rankd.core.evaluate.use import read_stated, stated_pending, used_by_application, used_by_leaf, with_stated
from rankd.core.fairshare.decay import billing_rate
from rankd.core.model.index_set import IndexSet, count
from rankd.core.model.quantity import VCORE, scaled
from rankd.core.model.setting import PrioritySettings, Qos, SchedulingSettings
from rankd.core.placement.request import Shape
from rankd.core.ranking.application_sort import ApplicationSortPolicy
from rankd.core.ranking.columns import NO_GROUP, FloatArray, JobColumns, JobRow
from rankd.core.ranking.name import Names, association_names, queue_names
from rankd.core.ranking.queue_view import queue_views
from rankd.core.ranking.ranking import Outright, RankingState, Usage

ApplicationSorts = Mapping[str, ApplicationSortPolicy]


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """The whole content of a document. ``verdicts[i]`` and ``shapes[i]`` belong to ``pending[i]``.

    ``eligible_tasks``: of arrays that wait by index, by number, the tasks that may start.
    """

    document: Document
    settings: PrioritySettings
    catalogue: QueueCatalogue
    accounts: Accounts
    pending: list[Job]
    active: list[Job]
    verdicts: list[Verdict]
    eligible_tasks: dict[int, IndexSet]
    shapes: list[Shape]
    book: ApplicationBook
    inventory: Inventory
    state: RankingState
    outright: Outright


def build(
    document: Document,
    catalogue: QueueCatalogue,
    accounts: Accounts,
    admitted: Admitted,
    qos: Sequence[Qos],
    sorts: ApplicationSorts,
) -> Situation:
    """The situation.

    Raises:
        ConfigurationError: with all amounts that are not valid, and all names that are unknown in the document.
    """
    return _Builder(document, catalogue, accounts, admitted, qos, sorts).situation()


class _Builder:
    def __init__(
        self,
        document: Document,
        catalogue: QueueCatalogue,
        accounts: Accounts,
        admitted: Admitted,
        qos: Sequence[Qos],
        sorts: ApplicationSorts,
    ) -> None:
        problems: list[Problem] = []
        taken = [*admitted.pending, *admitted.active]
        self.document, self.catalogue, self.qos, self.sorts = document, catalogue, qos, sorts
        self.settings = document.priority or PrioritySettings()
        self.pending = admitted.pending
        self.active = admitted.active
        self.inventory = read_inventory(document, catalogue, admitted.active, problems)
        self.book = read_applications(document, catalogue, taken, problems)
        self.stated = read_stated(document, catalogue, problems)
        if problems:
            raise ConfigurationError(problems)
        self.accounts = accounts.with_newcomers(job.pair for job in taken if job.pair)
        self.verdicts, self.eligible_tasks = judge(self.pending, document.jobs, document.now)
        self.shapes, self.shape_places = _shapes(self.pending, catalogue)

    def situation(self) -> Situation:
        return Situation(
            document=self.document,
            settings=self.settings,
            catalogue=self.catalogue,
            accounts=self.accounts,
            pending=self.pending,
            active=self.active,
            verdicts=self.verdicts,
            eligible_tasks=self.eligible_tasks,
            shapes=[self.shapes[place] for place in self.shape_places],
            book=self.book,
            inventory=self.inventory,
            state=self._state(),
            outright=Outright(pending=self._stated_pending(), factors=self._given_factors()),
        )

    def _state(self) -> RankingState:
        totals, counts, tree = self.inventory.totals, self.inventory.counts, self.accounts.tree
        views = [
            queue_views(partition, self.catalogue.ids, total, self.sorts)
            for partition, total in zip(self.catalogue.partitions, totals, strict=True)
        ]
        parents = {view.id: view.parent for part in views for view in part}
        used = used_by_application(self.inventory.held, self.book)
        explicit = [math.nan if row.factor is None else row.factor for row in self.qos]
        ids = np.arange(tree.n_users, dtype=np.int64)
        return RankingState(
            jobs=JobColumns.from_rows([self._row(place) for place in range(len(self.pending))]),
            tree=tree,
            association_ids=ids,
            usage=self._usage(),
            qos_priorities=np.array([row.priority for row in self.qos], dtype=np.float64),
            qos_factors=np.array(explicit, dtype=np.float64),
            queues=views,
            used=with_stated(used_by_leaf(self.inventory.held, self.book, used), self.stated, parents),
            shapes=[scaled(shape.resources, shape.nodes) for shape in self.shapes],
            totals=totals,
            partition_nodes=np.array(counts, dtype=np.float64),
            partition_cores=np.array([total.get(VCORE, 0) / 1000.0 for total in totals], dtype=np.float64),
            applications=self.book.ranked(used),
            names=Names(
                associations=association_names(tree, ids),
                qos=[row.name for row in self.qos],
                queues=queue_names(views),
                partitions=self.catalogue.names,
            ),
            tasks={
                job.number: count(self.eligible_tasks.get(job.number, job.array.indices))
                for job in self.pending
                if job.array is not None
            },
        )

    def _row(self, place: int) -> JobRow:
        job, verdict = self.pending[place], self.verdicts[place]
        entry = job.entry
        limit = (self.document.scheduling or _SCHEDULING).default_time_limit_s
        return JobRow(
            id=job.number,
            association=NO_GROUP if job.pair is None else self.accounts.tree.user_indices[job.pair],
            queue=job.queue,
            qos=job.qos,
            partition=job.partition,
            application=self.book.place_of(job),
            class_value=job.resolved.class_value,
            urgency=entry.urgency,
            nodes=entry.nodes,
            vcore=job.resources.get(VCORE, 0),
            shape=self.shape_places[place],
            time_limit_s=limit if entry.time_limit_s is None else entry.time_limit_s,
            submitted_at=submitted_at(entry, self.document.now),
            eligible_at=None if isinstance(verdict, str) else verdict,
            fixed_priority=entry.fixed_priority,
        )

    def _usage(self) -> Usage:
        now, tree, listed = self.document.now, self.accounts.tree, self.accounts.listed
        rows = [listed[row] for row in tree.rows[tree.n_accounts :].tolist()]
        at = [now if row.usage_at is None else row.usage_at for row in rows]
        charged = [
            (tree.user_indices[hold.job.pair], self._rate(hold.job, hold.resources), hold.since)
            for hold in self.inventory.held
            if hold.job.pair is not None
        ]
        usage = Usage(
            amounts=np.array([row.usage for row in rows], dtype=np.float64),
            at=np.array(at, dtype=np.float64),
            users=np.array([user for user, _, _ in charged], dtype=np.int64),
            rates=np.array([rate for _, rate, _ in charged], dtype=np.float64),
            since=np.array([max(since, at[user]) for user, _, since in charged], dtype=np.float64),
            until=np.full(len(charged), math.inf),
        )
        self._check_sum(usage)
        return usage

    def _rate(self, job: Job, resources: dict[str, int]) -> float:
        """Billing units per second for the amounts that the job holds on one node."""
        usage_factor = 1.0 if job.qos == NO_GROUP else self.qos[job.qos].usage_factor
        return billing_rate(resources, 1, self.settings.fairshare.billing, usage_factor)

    def _check_sum(self, usage: Usage) -> None:
        elapsed = self.document.now - usage.since.min(initial=self.document.now)
        with np.errstate(over="ignore"):
            bound = usage.amounts.sum() + usage.rates.sum() * elapsed
        if not np.isfinite(bound):
            message = "the sum of all usage is more than 1.8e308; give usage, or its billing, in larger units"
            raise ConfigurationError([Problem(path="$.associations", message=message)])

    def _stated_pending(self) -> dict[int, dict[str, int]]:
        verdicts = zip(self.pending, self.verdicts, strict=True)
        return stated_pending([job for job, verdict in verdicts if not isinstance(verdict, str)], self.book)

    def _given_factors(self) -> dict[str, FloatArray]:
        """For each factor with a value in any job: the values by job, NaN for jobs without one."""
        given: dict[str, FloatArray] = {}
        for place, job in enumerate(self.pending):
            for name in job.entry.factors:
                if name not in given:
                    given[name] = np.full(len(self.pending), math.nan)
                given[name][place] = job.entry.factors[name]
        return given


_SCHEDULING = SchedulingSettings()


def _shapes(pending: Sequence[Job], catalogue: QueueCatalogue) -> tuple[list[Shape], list[int]]:
    """The distinct shapes of the pending jobs, and for each job the index of its shape."""
    shapes: dict[object, int] = {}
    found: list[Shape] = []
    places = []
    for job in pending:
        entry = job.entry
        key = (
            job.partition,
            entry.nodes,
            job.min_nodes,
            tuple(job.resources.items()),
            entry.constraints,
            entry.exclusive,
        )
        if key not in shapes:
            shapes[key] = len(found)
            found.append(
                Shape(
                    partition=catalogue.names[job.partition],
                    nodes=entry.nodes,
                    min_nodes=job.min_nodes,
                    resources=job.resources,
                    constraints=entry.constraints,
                    exclusive=entry.exclusive,
                )
            )
        places.append(shapes[key])
    return found, places
