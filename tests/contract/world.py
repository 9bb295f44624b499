"""A store in which every view has rows, written by the verbs alone.

Two nodes are up (n1, n2), n3 is drained. Generation 1 is full and ranks the jobs ``FIRST`` and ``SECOND``; the delta
generation 2 puts the job ``BETWEEN`` between them; the job ``LATE`` came after both.
"""

import numpy as np
from builder import NOW, columns, configuration, job_row, leaf, no_applications, no_usage, parent, state, view
from contract.store import Store
from msgspec.structs import replace
from sqlalchemy import insert

from rankd.config.change import Change
from rankd.core.adapter.input import Input, QosRow
from rankd.core.change.node_action import drain
from rankd.core.fairshare.decay import charge
from rankd.core.fairshare.tree import AccountTree
from rankd.core.forecast.outlook import StartRange
from rankd.core.model.association import Association
from rankd.core.model.device import Device
from rankd.core.model.priority_class import PriorityClass
from rankd.core.model.queue import Partition
from rankd.core.model.setting import AdapterSettings, PrioritySettings
from rankd.core.ranking.delta import Delta
from rankd.core.ranking.factor import Per
from rankd.core.ranking.ranking import Usage, rank
from rankd.store.engine.last_id import last_id
from rankd.store.record.adapter import StoredInput
from rankd.store.record.adapter_result import register_adapters, save_input
from rankd.store.record.allocation import (
    NewAllocation,
    ReasonRow,
    ReservationRow,
    commit_allocations,
    save_reasons,
    save_reservations,
)
from rankd.store.record.configuration import Recorded
from rankd.store.record.dead_letter import Undelivered, keep
from rankd.store.record.delta import DeltaRows
from rankd.store.record.forecast import ForecastRow, Shown, note_shown, save_forecast, save_ranges
from rankd.store.record.generation import (
    GenerationRecord,
    Header,
    Settlement,
    head_stage,
    leaf_stages,
    publish,
    queue_stage,
    stages,
)
from rankd.store.record.history import Named, prune_jobs
from rankd.store.record.job_step import StepTask, begin_task
from rankd.store.record.new_configuration import record
from rankd.store.record.node_action import NodeWish, act
from rankd.store.record.unreadable import UnreadableMessage, keep_unreadable
from rankd.store.schema.migration import upgrade
from rankd.store.schema.table import relay_marks
from rankd.store.schema.view import FactorColumn
from rankd_plugins.factors.age import Age
from rankd_plugins.factors.fairshare import Fairshare

GONE, DONE, RUNNING, FIRST, SECOND, HELD, BLOCKED, BETWEEN, LATE = range(1, 10)
ALICE_JOBS = [DONE, FIRST, HELD, BETWEEN]
FULL, DELTA = 1, 2
WEIGHTS = {"fairshare": 1000.0, "age": 100.5, "luck": 7.0}
LONG_AGO = NOW - 100_000
ADAPTER = AdapterSettings(name="grades", input="qos", adapter="csv")
CLASS = PriorityClass(name="high", value=1000, description="first")
SETTINGS = PrioritySettings(weights=WEIGHTS)
USED_BY_ALICE = float(charge(1.0, NOW - 50, NOW - 40, NOW, SETTINGS.fairshare.half_life_s))
"""By the job ``DONE``."""
USAGE = Usage(
    amounts=np.array([USED_BY_ALICE, 10.0]), at=np.full(2, NOW), users=np.array([1]),
    rates=np.array([1.0]), since=np.array([NOW - 10]), until=np.array([np.inf]),
)  # fmt: skip
"""What alice and bob have used: bob's are the rest of the job ``GONE``, and the job ``RUNNING``."""


class Luck:
    """Another package's factor: one value per job, without a formula in SQL, so that values are stored."""

    name, per, lowest, highest = "luck", Per.JOB, 0.0, 1.0

    def values(self, context):
        return context.jobs.ids / 10.0

    def sql(self):
        return None

    def parameters(self):
        return {}


FACTORS = [Fairshare(SETTINGS), Age(SETTINGS), Luck()]
COLUMNS = [FactorColumn(name=f.name, per=f.per, sql=f.sql(), parameters=tuple(f.parameters())) for f in FACTORS]


def world_configuration(**settings):
    """Two leaf queues, a class, and an adapter that gives QoS."""
    root = parent("root", leaf("root.default"), leaf("root.other", max={"vcore": 9000}))
    given = configuration(partitions=(Partition(root=root),), priority=SETTINGS, adapters=[ADAPTER], **settings)
    return replace(given, classes=(CLASS,))


async def migrate(database):
    """The newest schema."""
    await upgrade(database)


async def fill_world(database):
    """Everything that this module's docstring says."""
    await upgrade(database)
    store = Store(database)
    await store.configure(world_configuration())
    await database.take_role("intake", NOW)
    await _fill_administration(store)
    await _fill_jobs(store)
    alice, bob = (store.catalog.associations["physics", user] for user in ("alice", "bob"))
    settlement = Settlement(associations=[(10.0, NOW, bob), (USED_BY_ALICE, NOW, alice)], allocations=[1, 2])
    ranking = await store_generation(store, FULL, [FIRST, SECOND], settlement, USAGE)
    await store.submit("alice", at=NOW, class_value=50)
    await store_delta(store, ranking)
    await store.submit("bob", at=NOW + 1)
    await _fill_forecast(store)
    await _prune(store)


async def _fill_forecast(store):
    await store.write(save_ranges, [StartRange(FIRST, NOW + 60, NOW + 120)], [])
    await store.write(save_forecast, ForecastRow(NOW, DELTA, 1, 0, 0.5, 0.25))
    await store.write(note_shown, [Shown(FIRST, "alice", NOW, NOW + 1, NOW + 60, NOW + 120)])


async def _fill_administration(store):
    stored = StoredInput(name="grades", input=Input(kind="qos", qos=[QosRow(name="normal", priority=3)]), read_at=NOW)
    await store.write(register_adapters, [ADAPTER])
    await store.write(save_input, stored)
    change = Change(file="rankd.toml", key="priority.weights.age", new="100.5")
    files = {"rankd.toml": "[priority]\n"}
    await store.write(
        record,
        Recorded(number=0, at=NOW, actor="root", event="started", directory="/etc", changes=[change], files=files),
    )
    letter = Undelivered(
        source="jobs-1",
        user="alice",
        at=NOW,
        message_id="m1",
        payload=b'{"command": 1}',
        code="bad_field",
        message="no",
    )
    await store.write(keep, [letter])
    message = UnreadableMessage(
        at=NOW, stream="jobs", subject="rankd.job", sequence=3, n_bytes=2, head=b"\xff\x00", reason="not JSON"
    )
    await store.write(keep_unreadable, [message])
    await store.add_nodes("n1", devices=[Device(model="a100", id="g0", index=0)])
    await store.add_nodes("n2", "n3")
    await store.write(act, NodeWish(nodes=["n3"], actor="root", reason="a fan", at=NOW), drain)


async def _fill_jobs(store):
    await store.submit("bob", at=LONG_AGO)
    amounts = {"vcore": 1000, "gpu": 1, "gpu:a100": 1}
    await allocate(store, GONE, "n1", at=LONG_AGO, devices={"n1": ("g0",)}, resources=amounts)
    await end(store, GONE, "n1", at=LONG_AGO + 10)
    await store.submit("alice", "bob", at=NOW - 60)
    await allocate(store, DONE, "n1", at=NOW - 50)
    await end(store, DONE, "n1", at=NOW - 40, max_rss_bytes=2**20, cpu_s=3.0, measured="cgroup")
    await store.submit("alice", at=NOW - 30, class_value=100)
    await store.submit("bob", at=NOW - 20, queue="root.other", request={"application": "app"})
    await store.submit("alice", at=NOW - 20, held=True)
    await store.submit("bob", at=NOW - 20, request={"depends_on": [{"type": "afterok", "job": RUNNING}]})
    await allocate(store, RUNNING, "n1", "n2", at=NOW - 10, devices={"n1": ("g0",)})
    [one, _] = await store.take("n1", "n2", at=NOW - 9)
    for node in ("n1", "n2"):
        await store.report(node, one.starts[0].allocation, RUNNING, "started", at=NOW - 8, stdout="/tmp/out")
    step = StepTask(one.starts[0].allocation, "s1", None, 0, 0, "nvidia-smi", "bob")
    await store.write(begin_task, step, NOW - 7)
    [shape] = {row["shape"] for row in await store.rows("jobs", id=SECOND)}
    queue = store.catalog.queues["default", "root.other"]
    reason = ReasonRow(
        queue=queue, shape=shape, time_limit_s=-1, user="", application=-2, reason="resources", fact="too few cores"
    )
    await store.write(save_reasons, [reason], None)
    await store.write(save_reservations, [ReservationRow(job=SECOND, nodes=("n1",), starts_at=NOW + 60)], 3, NOW)


async def allocate(store, job, *nodes, at=NOW, cycle=1, devices=None, resources=None):
    """Place a pending job on nodes, by default with one core each; the number of allocations made."""
    [row] = await store.rows("jobs", id=job)
    new = NewAllocation(
        job=job, revision=row["revision"], nodes=nodes, resources=resources or {"vcore": 1000},
        charge_rate=1.0, generation=0, rank=1, devices=devices or {},
    )  # fmt: skip
    return await store.write(commit_allocations, [new], cycle, at)


async def end(store, job, node, at=NOW, **fields):
    """Let a placed job run and complete on its only node."""
    [taken] = await store.take(node, at=at - 5)
    allocation = taken.starts[0].allocation
    await store.report(node, allocation, job, "started", at=at - 5)
    await store.report(node, allocation, job, "ended", at=at, **{"exit_status": 0} | fields)


def job_rows(rows):
    """Rows of the table of jobs as a ranking sees them."""
    return [
        job_row(
            row["id"], association=row["association_id"], queue=row["queue_id"], qos=row["qos_id"],
            class_value=row["class_value"], submitted_at=row["submitted_at"], eligible_at=row["eligible_at"],
        )
        for row in rows
    ]  # fmt: skip


def ranking_state(store, rows, usage=None):
    """What a ranking looks at: these rows of the table of jobs, and one partition with the configured queues.

    ``usage``: that of alice and bob; by default nothing.
    """
    ids = {path: id_ for (_, path), id_ in store.catalog.queues.items()}
    queues = [view(id_, path, ids.get(path.rpartition(".")[0])) for path, id_ in sorted(ids.items())]
    users = [Association(account="physics", user=user) for user in ("alice", "bob")]
    tree = AccountTree.build([Association(account="physics"), *users])
    pairs = sorted(tree.user_indices, key=tree.user_indices.__getitem__)
    n_qos = max(store.catalog.qos.values()) + 1
    return state(
        *job_rows(rows), queues=queues, tree=tree, usage=usage or no_usage(len(users)),
        association_ids=np.array([store.catalog.associations[pair] for pair in pairs]),
        qos_priorities=np.zeros(n_qos), qos_factors=np.full(n_qos, np.nan),
    )  # fmt: skip


async def store_generation(store, number, jobs, settlement=None, usage=None):
    """Store a full generation that ranks these jobs, and make it visible."""
    rows = [row for job in jobs for row in await store.rows("jobs", id=job)]
    given = ranking_state(store, rows, usage)
    ranking = rank(given, SETTINGS, FACTORS, NOW, for_deltas=True)
    revision = await store.read(last_id, "job_events")
    n_nodes = len(given.tree.parents)
    ids = np.full(n_nodes, -1)
    ids[n_nodes - len(given.association_ids) :] = given.association_ids
    generation = GenerationRecord(
        number=number, revision=revision, ranking=ranking, factors=COLUMNS, association_ids=ids,
        parameters=[(f"{f.name}.{name}", value) for f in FACTORS for name, value in f.parameters().items()],
        partitions=[("default", 2.0, 8.0)],
    )  # fmt: skip
    for stage in (*leaf_stages(generation), *stages(generation), head_stage(np.empty(0, dtype=np.int64), ranking.ids)):
        await store.write(stage)
    await store.write(publish(header(number, number, revision, len(jobs)), settlement, COLUMNS))
    return ranking


def header(number, base, revision, jobs):
    """A generation's own row."""
    return Header(
        number=number, base=base, ranked_at=NOW, made_at=NOW, policy="multifactor", revision=revision, jobs=jobs,
        new_jobs=1, weights=WEIGHTS, durations={"rank": 0.1}, failures={}, configuration=1,
    )  # fmt: skip


async def store_delta(store, ranking):
    """Store the delta generation that ranks the job ``BETWEEN``, and make it visible."""
    rows = await store.rows("jobs", id=BETWEEN)
    delta, own = Delta(ranking.base), columns(*job_rows(rows))
    priorities = np.array([(ranking.ranked_priorities[0] + ranking.ranked_priorities[1]) // 2])
    edit = delta.change(np.empty(0, dtype=np.int64), own, priorities, no_applications())
    revision = await store.read(last_id, "job_events")
    await store.write(DeltaRows(FULL).stage(DELTA, edit, delta.entries(), []))
    await store.write(queue_stage(FULL, ranking.queues))
    await store.write(head_stage(ranking.ids, delta.head(10)))
    await store.write(publish(header(DELTA, FULL, revision, 3)))


async def _prune(store):
    """Delete the job ``GONE``, whose events are published and whose allocation is charged."""
    marks = insert(relay_marks).values(name="job_events", event_id=await store.read(last_id, "job_events"))
    await store.write(lambda connection: connection.execute(marks))
    await store.write(prune_jobs, 0, NOW - 90_000, Named(frozenset(), 0))
