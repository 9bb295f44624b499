"""A small database as rankd leaves it: real schema, real views, rows put in by SQL.

Jobs: 1 and 2 wait and are ranked (2 first), 3 is held, 4 runs on n01 and n02, 5 has completed, 6 waits and came
after the pass. The pass: generation 7, with the factors fairshare, user and age, in this order.
"""

import asyncio
import json

from rankd.core.model.setting import PrioritySettings
from rankd.store.engine.url import open_database
from rankd.store.schema.migration import replace_views, upgrade
from rankd.store.schema.view import FactorColumn, factor_views
from rankd_plugins.factors.age import Age
from rankd_plugins.factors.fairshare import Fairshare
from rankd_plugins.factors.user import User

NOW = 1_700_000_000.0
GENERATION = 7
WEIGHTS = {"fairshare": 10000.0, "user": 100.5, "age": 1000.0}
FAIRSHARES = {2: 0.5, 3: 0.75}
GIB = 2**30


def make_database(path, *, ranked=True):
    """Make the file; without ``ranked`` there was no pass yet."""

    async def make():
        async with open_database(path) as database:
            await upgrade(database)
            await database.write(lambda connection: _fill(connection, ranked=ranked))

    asyncio.run(make())
    return path


def _fill(connection, *, ranked):
    def put(table, **columns):
        names = ", ".join(f'"{name}"' for name in columns)
        marks = ", ".join("?" for _ in columns)
        connection.exec_driver_sql(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(columns.values()))

    _fill_groups(put)
    _fill_jobs(put)
    _fill_nodes(put)
    if ranked:
        _fill_generation(put)
        replace_views(connection, factor_views(_factors()))


def _factors():
    factors = [kind(PrioritySettings()) for kind in (Fairshare, User, Age)]
    return [
        FactorColumn(name=factor.name, per=factor.per, sql=factor.sql(), parameters=tuple(factor.parameters()))
        for factor in factors
    ]


def _fill_groups(put):
    for place, (account, user, parent) in enumerate(
        [("root", "", None), ("physics", "alice", None), ("physics", "bob", None), ("physics", "", "root")], start=1
    ):
        put("associations", id=place, account=account, user=user, parent=parent, shares=place, configured=1)
    for place, (path, is_leaf) in enumerate([("root", 0), ("root.a", 1), ("root.B", 1)], start=1):
        put(
            "queues", id=place, partition="default", path=path, configured=1, is_leaf=is_leaf, policy="default",
            offset=0, sort_priority=1, sort_policy="fifo", guaranteed="{}", max=json.dumps({"vcore": 4000}),
        )  # fmt: skip
    put("qos", id=1, name="normal", priority=0, usage_factor=1.0)


def _fill_jobs(put):
    usual = {
        "association_id": 2, "queue_id": 2, "qos_id": 1, "held": 0, "class_value": 0,
        "preemption_policy": "PreemptLowerPriority", "urgency": 16, "nodes": 1, "min_nodes": 1, "vcore": 1500,
        "resources": json.dumps({"vcore": 1500, "memory": GIB}), "exclusive": 0, "shape": 1, "requeue": 1,
        "submitted_at": NOW - 100, "eligible_at": NOW - 100, "revision": 1, "user": "alice",
    }  # fmt: skip
    for number, state, changes in (
        (1, "pending", {"name": "one", "key": "k1"}),
        (2, "pending", {"name": "two", "user": "bob", "association_id": 3, "queue_id": 3, "class_value": 40}),
        (3, "pending", {"name": "kept", "held": 1, "eligible_at": None}),
        (4, "running", {"name": "busy", "nodes": 2, "started_at": NOW - 60, "allocation_id": 1,
                        "nodelist": "n[01-02]", "eligible_at": None, "time_limit_s": 3600.0}),
        (5, "completed", {"name": "done", "started_at": NOW - 60, "ended_at": NOW - 30, "exit_status": 0}),
        (6, "pending", {"name": "late", "revision": 99, "depends_on": '[{"type":"afterok","job":4}]'}),
    ):  # fmt: skip
        request = {"command": ["sleep", str(number)], "name": changes["name"], "stdout": "out.txt"}
        put("jobs", id=number, state=state, **usual | changes, request=json.dumps(request))
    put("job_events", id=1, job_id=1, event="submit", state="pending", at=NOW - 100, actor="alice")
    put("job_events", id=2, job_id=1, event="hold", state="pending", at=NOW - 90, actor="root", cause="asked")


def _fill_nodes(put):
    capacity = json.dumps({"vcore": 4000, "memory": 8 * GIB})
    for name, state in (("n01", "up"), ("n02", "up"), ("n03", "up"), ("n04", "draining"), ("n11", "lost")):
        vcores = json.dumps({"vcore": 1500}) if name == "n02" else capacity
        put(
            "nodes", name=name, partition="default", state=state, capacity=vcores, labels='{"gpu":"a100"}',
            agent=name, registered_at=NOW, heartbeat_at=NOW,
        )  # fmt: skip
    put(
        "allocations", id=1, job_id=4, cycle=1, generation=6, rank=1, nodes='["n01","n02"]',
        resources='{"vcore":1500}', charge_rate=1.0, allocated_at=NOW - 60,
    )  # fmt: skip
    for node in ("n01", "n02"):
        put("allocation_nodes", allocation_id=1, node=node)


def _fill_generation(put):
    put(
        "generations", number=GENERATION, kind="full", ranked_at=NOW, policy="multifactor", revision=50, jobs=2,
        new_jobs=2, weights=json.dumps(WEIGHTS), durations="{}", failures="{}", base=GENERATION, made_at=NOW,
    )  # fmt: skip
    for name, value in ({f"weight.{k}": v for k, v in WEIGHTS.items()} | {"age.max_age_s": 604800.0}).items():
        put("generation_numbers", generation=GENERATION, name=name, value=value)
    for association, value in FAIRSHARES.items():
        put("generation_values", generation=GENERATION, factor="fairshare", key=association, value=value)
        put(
            "generation_associations", generation=GENERATION, association_id=association, usage=100.0 * association,
            shares_norm=0.5, usage_effective=0.4, level_fairshare=1.25, fairshare=value,
        )  # fmt: skip
    put("generation_associations", generation=GENERATION, association_id=1, usage=1000.0)
    put(
        "generation_queues", generation=GENERATION, queue_id=2, priority=5000, share=0.25, pending_jobs=1,
        pending='{"vcore":1.5}', allocated='{"vcore":3}',
    )  # fmt: skip
    put(
        "ranking_chunks",
        generation=GENERATION,
        chunk=0,
        first_rank=1,
        ids="[2,1]",
        priorities=b"0000000754000000005000",
    )
    put("rank_chunks", generation=GENERATION, chunk=0, first_id=0, ranks=b"000000000000000200000001")
    for rank, job in enumerate((2, 1), start=1):
        put("ranking_head", rank=rank, job_id=job)
