"""Jobs that nobody has submitted, among the live ones: how they would be ranked, and where they would land."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from rankd.core.evaluate.result import FactorRow
from rankd.core.evaluate.whatif import Landing
from rankd.core.model.association import Association
from rankd.core.model.job import AcceptedJob
from rankd.core.model.quantity import VCORE
from rankd.core.ranking.columns import NO_GROUP, JobRow
from rankd.core.ranking.factor import Per
from rankd.core.ranking.priority import FactorValues
from rankd.core.ranking.ranking import Ranking, RankingState
from rankd.services.prioritizer.live_columns import CannotRank, Live
from rankd.store.engine.connection import Connection
from rankd.store.feed.association import AssociationRow
from rankd.store.record.catalog import with_shares

_NOBODY = np.empty(0, dtype=np.int64)


class Then(NamedTuple):
    """The state with the change, and its ranking. New jobs are the last ones of its columns."""

    state: RankingState
    ranking: Ranking


def with_new_jobs(
    connection: Connection, live: Live, new: Sequence[AcceptedJob], values: Mapping[str, int]
) -> RankingState:
    """The state with these jobs, submitted at the instant of the ranking. Their users may be new.

    ``values``: other values of classes.

    Raises:
        CannotRank: one would make a queue.
    """
    pairs = _pairs(live, new)
    live.source.let_join([_joining(live, pair, id_) for pair, id_ in pairs.items() if pair not in _known(live)])
    live.source.read_groups(connection)
    grown = live.source.known_state
    n_shapes, first = len(grown.shapes), int(live.state.jobs.ids.max(initial=0)) + 1
    outside = live.source.associations.outside
    rows = [
        _row(live, job, first + at, n_shapes + at, values)._replace(
            association=NO_GROUP if (id_ := pairs[job.account, job.user]) in outside else id_
        )
        for at, job in enumerate(new)
    ]
    asked = [{kind: amount * job.nodes for kind, amount in job.resources.items()} for job in new]
    return msgspec.structs.replace(
        grown,
        jobs=live.state.jobs.merge(_NOBODY, rows),
        shapes=[*grown.shapes, *asked],
        tasks=live.state.tasks,
    )


def _known(live: Live) -> Mapping[tuple[str, str], int]:
    return live.catalog.associations


def _pairs(live: Live, new: Sequence[AcceptedJob]) -> dict[tuple[str, str], int]:
    """The association of each user and account; new ones get the next ids."""
    found, following = dict[tuple[str, str], int](), max(_known(live).values(), default=0) + 1
    for pair in dict.fromkeys((job.account, job.user) for job in new):
        if pair not in _known(live):
            found[pair], following = following, following + 1
        else:
            found[pair] = _known(live)[pair]
    return found


def _joining(live: Live, pair: tuple[str, str], id_: int) -> AssociationRow:
    shares = with_shares(live.catalog, live.configuration).new_user_shares
    return AssociationRow(id_, Association(account=pair[0], user=pair[1], shares=shares), 0.0, live.at, False)


def _row(live: Live, job: AcceptedJob, id_: int, shape: int, values: Mapping[str, int]) -> JobRow:
    queue = live.catalog.queues.get((job.partition, job.queue.lower()))
    if job.made or queue is None:
        raise CannotRank(f"the job would make the queue {job.queue}")
    partitions = [partition.name for partition in live.configuration.partitions]
    return JobRow(
        id=id_,
        association=NO_GROUP,
        queue=queue,
        qos=live.catalog.qos[job.qos],
        partition=partitions.index(job.partition),
        application=NO_GROUP,
        class_value=values.get(job.priority_class or "", job.class_value),
        urgency=job.urgency,
        nodes=job.nodes,
        vcore=job.resources.get(VCORE, 0),
        shape=shape,
        time_limit_s=job.request.time_limit_s,
        submitted_at=live.at,
        eligible_at=live.at,
        fixed_priority=None,
    )


def landings(live: Live, then: Then, new: Sequence[tuple[str, AcceptedJob]]) -> list[Landing]:
    """Where each of the new jobs, by name, would land."""
    n_old = len(live.state.jobs)
    names = dict(zip(then.state.jobs.ids[n_old:].tolist(), (name for name, _ in new), strict=True))
    return [_landing(live, then, n_old + at, names) for at in range(len(new))]


def _landing(live: Live, then: Then, at: int, names: Mapping[int, str]) -> Landing:
    ids, order = then.state.jobs.ids, then.ranking.ids
    job = int(ids[at])
    found = np.flatnonzero(order == job)
    if not len(found):
        raise CannotRank(f"{names[job]} has no rank")
    place = int(found[0])
    ahead, behind = order[place - 1 : place].tolist() if place else [], order[place + 1 :].tolist()[:1]
    return Landing(
        job=names[job],
        rank=place + 1,
        ranked=len(order),
        priority=int(then.ranking.priorities.priorities[at]),
        factors=[_factor(row, then.state, at) for row in then.ranking.priorities.factors],
        passes=_passes(live, then, place),
        ahead=names.get(ahead[0], ahead[0]) if ahead else None,
        behind=names.get(behind[0], behind[0]) if behind else None,
        is_placed=False,
    )


def _factor(row: FactorValues, state: RankingState, at: int) -> FactorRow:
    jobs = state.jobs.take(np.array([at], dtype=np.intp))
    own = msgspec.structs.replace(row, values=row.values[at : at + 1]) if row.per is Per.JOB else row
    value, points = float(own.of_jobs(jobs)[0]), float(own.points(jobs)[0])
    return FactorRow(name=row.name, value=value, weight=row.weight, points=points)


def _passes(live: Live, then: Then, place: int) -> dict[str, int]:
    """How many live jobs of each user are behind this place, the most first."""
    old = live.state.jobs.ids
    behind = then.ranking.ids[place + 1 :]
    counts = np.bincount(live.owners.of_jobs[np.searchsorted(old, behind[behind <= old.max(initial=0)])])
    users = dict[str, int]()
    for owner in np.flatnonzero(counts).tolist():
        user = live.owners.names[owner][1]
        users[user] = users.get(user, 0) + int(counts[owner])
    return dict(sorted(users.items(), key=lambda pair: (-pair[1], pair[0])))
