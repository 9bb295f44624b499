"""Builders: the smallest thing of each kind, so that a test names only what it is about."""

import asyncio
import atexit
import functools
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import numpy as np
from hypothesis import strategies as st

from rankd.config.configuration import Configuration
from rankd.core.admission.admit import AdmissionTables, QueueEntry
from rankd.core.admission.priority_class import ClassTable
from rankd.core.fairshare.tree import AccountTree
from rankd.core.model.association import Association
from rankd.core.model.job import AcceptedJob, Dependency, JobRequest
from rankd.core.model.node import Node
from rankd.core.model.queue import NodeSort, Partition, Queue, QueueProperties
from rankd.core.model.setting import Settings
from rankd.core.placement.kind_table import KindTable
from rankd.core.placement.node_table import NodeTable
from rankd.core.placement.problem import PartitionProblem, WaitingJobs
from rankd.core.placement.request import Kind, Shape
from rankd.core.ranking.columns import NO_GROUP, JobColumns, JobRow
from rankd.core.ranking.factor import FactorContext, Groups
from rankd.core.ranking.order import Applications, PreOrder, sort_jobs
from rankd.core.ranking.priority import INT32_MAX, INT32_MIN
from rankd.core.ranking.queue_view import QueueView
from rankd.core.ranking.ranking import RankingState, Usage
from rankd.store.engine.url import open_database
from rankd.store.record.node import register_node
from rankd.store.schema.migration import upgrade
from rankd.wire.message import NodeRegistration
from rankd_plugins.application_sort.fair import Fair as FairApplications
from rankd_plugins.application_sort.fifo import Fifo
from rankd_plugins.application_sort.stateaware import Stateaware
from rankd_plugins.node_sort.binpacking import Binpacking
from rankd_plugins.node_sort.fair import Fair


class Busiest:
    """Somebody's own application sorting policy: the application that uses most of anything goes first."""

    name = "busiest"
    goes_by_usage = True
    holds_back = False

    def key(self, shares):
        return (-max(shares, default=0.0),)

    def let_in(self, candidates, *, by_priority):  # noqa: ARG002 - the protocol's
        return range(len(candidates))


APPLICATION_SORTS = {policy.name: policy for policy in (Fifo(), FairApplications(), Stateaware(), Busiest())}
NOW = 1_700_000_000.0
NAN = float("nan")
GIB = 2**30


# --- ranking ------------------------------------------------------------------------------------------------


def job_row(id=1, **fields):
    """A job that has been eligible since :data:`NOW`, in groups 0, asking for one core of one node."""
    usual = {
        "association": 0,
        "queue": 0,
        "qos": 0,
        "partition": 0,
        "application": NO_GROUP,
        "class_value": 0,
        "urgency": 16,
        "nodes": 1,
        "vcore": 1000,
        "shape": 0,
        "time_limit_s": None,
        "submitted_at": NOW,
        "eligible_at": NOW,
        "fixed_priority": None,
    }
    return JobRow(**{"id": id, **usual, **fields})


def columns(*rows):
    """Rows as columns."""
    return JobColumns.from_rows(rows)


def groups(**arrays):
    """One group of each kind: fair share 0, no QoS priority, no queue factor, a partition of 10 nodes and 100 cores."""
    usual = {
        "fairshares": [0.0],
        "qos_priorities": [0.0],
        "qos_factors": [NAN],
        "queue_factors": [NAN],
        "partition_nodes": [10.0],
        "partition_cores": [100.0],
    }
    return Groups(**{name: np.array(values, dtype=np.float64) for name, values in {**usual, **arrays}.items()})


def context(*rows, now=NOW, **arrays):
    """A pass at ``now`` over these jobs."""
    return FactorContext(now=now, jobs=columns(*rows), groups=groups(**arrays))


def view(
    id,
    path,
    parent=None,
    *,
    guaranteed=None,
    effective_max=None,
    maximum=None,
    maxapplications=0,
    limits=(),
    **properties,
):
    """A queue as a pass and a cycle see it."""
    return QueueView(
        id=id,
        path=path,
        parent=parent,
        properties=QueueProperties(**properties),
        guaranteed=guaranteed or {},
        effective_max=effective_max or {},
        maximum=maximum or {},
        maxapplications=maxapplications,
        limits=tuple(limits),
        application_sort=APPLICATION_SORTS[properties.get("sort_policy", "fifo")],
    )


def views(*specs):
    """Queues from (path, properties), parents first; ids are places, parents follow from the paths.

    >>> [(v.id, v.parent) for v in views(("root", {}), ("root.a", {}))]
    [(0, None), (1, 0)]
    """
    ids = {path: place for place, (path, _) in enumerate(specs)}
    return [view(ids[path], path, ids.get(path.rpartition(".")[0]), **fields) for path, fields in specs]


def no_applications():
    """No job belongs to a named application."""
    return Applications(created_at=np.empty(0), id_places=np.empty(0, dtype=np.int64))


def no_usage(n_users=0):
    """Nobody has used anything."""
    empty = np.empty(0)
    return Usage(
        amounts=np.zeros(n_users), at=np.full(n_users, NOW), users=np.empty(0, dtype=np.int64),
        rates=empty, since=empty, until=empty,
    )  # fmt: skip


def state(*rows, queues, **fields):
    """What a pass looks at: one partition without nodes, no associations."""
    usual = {
        "tree": AccountTree.build([Association(account="root")]),
        "association_ids": np.empty(0, dtype=np.int64),
        "usage": no_usage(),
        "qos_priorities": np.zeros(1),
        "qos_factors": np.full(1, NAN),
        "used": {},
        "shapes": [{"vcore": 1000}],
        "totals": [{}],
        "partition_nodes": np.zeros(1),
        "partition_cores": np.zeros(1),
        "applications": no_applications(),
    }
    return RankingState(**{"jobs": columns(*rows), "queues": [queues], **usual, **fields})


def order_jobs(jobs, priorities, queues, roots, applications, waiting=None):
    """Places of the eligible jobs, first to run first."""
    pre_order = PreOrder(queues, roots)
    return sort_jobs(jobs, priorities, pre_order, applications, waiting, keep_levels=False).places


def advanced(held, now, rates=None):
    """Usage that is stated for ``now``, or for its own instant where that is later."""
    usage = held.usage_now(now, rates)
    return msgspec.structs.replace(held, usage=usage, usage_at=np.maximum(held.usage_at, now))


# --- drawn ----------------------------------------------------------------------------------------------------

PRIORITIES = st.one_of(
    st.integers(-3, 3), st.sampled_from([INT32_MIN, INT32_MIN + 1, INT32_MAX - 1, INT32_MAX, -100, 100])
)
OFFSETS = st.one_of(st.just(0), st.integers(-3, 3), st.sampled_from([INT32_MIN, INT32_MAX, -100, 100]))
AMOUNTS = st.sampled_from([{}, {"vcore": 1}, {"vcore": 2}, {"vcore": 4}, {"gpu": 1}])


@st.composite
def forests(draw, max_depth=4, trees=(1, 1, 1, 2)):
    """One or two trees of queues as views, each a list with the root first."""
    listed, next_id = [], 0
    for _ in range(draw(st.sampled_from(trees))):
        views = []

        def grow(path, parent, depth, views=views):
            nonlocal next_id
            own, next_id = next_id, next_id + 1
            views.append(
                view(
                    own,
                    path,
                    parent,
                    guaranteed=draw(AMOUNTS),
                    effective_max=draw(AMOUNTS),
                    priority_policy=draw(st.sampled_from(["default", "default", "fence"])),
                    priority_offset=draw(OFFSETS),
                    sort_priority=draw(st.sampled_from([True, True, False])),
                )
            )
            for name in "abc"[: draw(st.integers(0 if depth else 1, 3))] if depth < max_depth else "":
                grow(f"{path}.{name}", own, depth + 1)

        grow("root", None, 0)
        listed.append(views)
    return listed


def leaves_of(forest):
    """Ids of the queues that take jobs."""
    parents = {view.parent for views in forest for view in views}
    return [view.id for views in forest for view in views if view.id not in parents and view.parent is not None]


# --- placement ----------------------------------------------------------------------------------------------


def node(name, vcore=4000, used=None, **fields):
    """A node that is up, with cores only."""
    return Node(**{"name": name, "capacity": {"vcore": vcore}, "used": used or {}, **fields})


def shape(vcore=1000, nodes=1, **fields):
    """One core on each of ``nodes`` nodes."""
    return Shape(
        **{"partition": "default", "nodes": nodes, "min_nodes": nodes, "resources": {"vcore": vcore}, **fields}
    )


def table(*nodes, policy="fair", weights=None):
    """The nodes as a cycle keeps them."""
    policies = {"fair": Fair, "binpacking": Binpacking}
    return NodeTable(nodes, policies[policy](), weights or NodeSort().resourceweights)


def kind(asked, **fields):
    """Jobs of this shape without a time limit, by nobody in particular."""
    return Kind(shape=asked, **fields)


def waiting_jobs(jobs, kinds):
    """Jobs (job, kind or shape, priority) in a leaf's order; ``kinds`` lists the kinds, and grows."""
    places = []
    for _, asked, _ in jobs:
        own = asked if isinstance(asked, Kind) else kind(asked)
        if own not in kinds:
            kinds.append(own)
        places.append(kinds.index(own))
    return WaitingJobs(
        jobs=np.array([job for job, _, _ in jobs], dtype=np.int64),
        priorities=np.array([priority for _, _, priority in jobs], dtype=np.int64),
        kinds=np.array(places, dtype=np.int64),
    )


def problem(queues, waiting, nodes, *, used=None, node_sort=None, **fields):
    """A cycle's input, without backfill; ``waiting``: by queue its (job, shape or kind, priority) in its order."""
    kinds = []
    usual = {"now": NOW, "backfill": "none"}
    listed = {queue: waiting_jobs(jobs, kinds) for queue, jobs in waiting.items()}
    return PartitionProblem(
        queues=queues,
        waiting=listed,
        kinds=KindTable(kinds),
        used=used or {},
        nodes=nodes,
        node_sort=node_sort or NodeSort(),
        **{**usual, **fields},
    )


# --- admission and store ------------------------------------------------------------------------------------


def leaf(path, **fields):
    """A leaf queue of the configuration."""
    return Queue(**{"name": path.rpartition(".")[2], "path": path, **fields})


def parent(path, *queues, **fields):
    """A queue with others below it."""
    return leaf(path, parent=True, queues=queues, **fields)


def configuration(*, root=None, partitions=None, associations=None, **settings):
    """One partition with the queue root.default; alice and bob in the account physics."""
    root = root or parent("root", leaf("root.default"))
    listed = associations or (
        Association(account="physics"),
        Association(account="physics", user="alice"),
        Association(account="physics", user="bob"),
    )
    return Configuration(
        directory="",
        settings=Settings(**settings),
        partitions=partitions or (Partition(root=root),),
        associations=tuple(listed),
        classes=(),
    )


def accepted(user="alice", **fields):
    """A job as admission leaves it; ``request`` takes further fields of the request."""
    given = {"command": ["true"], **fields.pop("request", {})}
    given["depends_on"] = [msgspec.convert(one, Dependency) for one in given.get("depends_on", [])]
    request = JobRequest(**given)
    usual = {
        "account": "physics",
        "queue": "root.default",
        "qos": "normal",
        "partition": "default",
        "class_value": 0,
        "priority_class": None,
        "preemption_policy": "PreemptLowerPriority",
        "urgency": 16,
        "held": False,
        "nodes": 1,
        "min_nodes": fields.get("nodes", 1),
        "resources": {"vcore": 1000},
    }
    return AcceptedJob(**{"user": user, **usual, **fields}, request=request)


def admission_tables(**fields):
    """Queues root (parent) and root.default; alice in physics; no classes but the built-in ones."""
    usual = {
        "settings": Settings(),
        "classes": ClassTable.of(),
        "partitions": ("default",),
        "queues": {
            ("default", path): QueueEntry(partition="default", path=path, is_leaf=is_leaf)
            for path, is_leaf in (("root", False), ("root.default", True))
        },
        "associations": frozenset({("physics", "alice")}),
        "accounts": frozenset({"root", "physics"}),
        "default_accounts": {"alice": "physics"},
    }
    return AdmissionTables(**{**usual, **fields})


@functools.cache
def _template():
    """A database with the schema and nothing else, made once per run."""
    directory = tempfile.mkdtemp(prefix="rankd-test-")
    atexit.register(shutil.rmtree, directory)
    path = Path(directory) / "empty.db"

    async def make():
        async with open_database(path, durable=False) as database:
            await upgrade(database)

    with ThreadPoolExecutor(1) as thread:  # the caller may be in an event loop
        thread.submit(lambda: asyncio.run(make())).result()
    return path


def add_nodes(connection, *names):
    """Nodes that are up, with four cores each."""
    for name in names:
        register_node(connection, name, NodeRegistration(resources={"vcore": 4}, agent=name), NOW)


def new_database(directory):
    """The path of a database with an empty schema in this directory."""
    path = Path(directory) / "rankd.db"
    shutil.copyfile(_template(), path)
    return path
