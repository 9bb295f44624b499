"""What the scheduler decides on the records is what `rankd evaluate` decides of their dump: one code, two readings."""

from __future__ import annotations

import json
import random
from contextlib import closing

import builder
import msgspec
import pytest
from integration.stage import NOW, a_cluster

from rankd.config.configuration import load_configuration
from rankd.config.evaluation import Evaluator
from rankd.core.model.array import parse_array
from rankd.core.model.device import Device
from rankd.core.model.index_set import each, of, read
from rankd.store.engine.reading import open_for_reading
from rankd.store.look.dump import dump
from rankd.store.record.array import split_these
from rankd.store.record.node import register_node
from rankd.wire.message import NodeRegistration, Report

QUEUES = {
    "partitions": [
        {
            "name": "default",
            "nodesortpolicy": {"type": "binpacking", "resourceweights": {"vcore": 3, "memory": 1}},
            "queues": [
                {
                    "name": "root",
                    "properties": {"application.sort.priority": "disabled"},
                    "queues": [
                        {"name": "default", "resources": {"max": {"vcore": "12"}, "guaranteed": {"vcore": "6"}}},
                        {"name": "apps", "maxapplications": 2, "properties": {"application.sort.policy": "fair"}},
                        {
                            "name": "shared",
                            "queues": [
                                {"name": "a", "limits": [{"users": ["bob"], "maxresources": {"vcore": "3"}}]},
                                {"name": "b", "properties": {"priority.policy": "fence", "priority.offset": "7"}},
                            ],
                        },
                    ],
                }
            ],
        }
    ]
}
OTHERS = [{}, {}, {"memory": 2**30}, {"gpu": 1}, {"gpu": 2}, {"gpu:a100": 1, "gpu": 1}, {"gpu:v100": 2, "gpu": 2}]
DEVICES = [
    Device(model=model, id=f"g{at}", index=at, group=at % 2)
    for at, model in enumerate(("a100", "v100", "a100", "v100"))
]
LEAVES = ("root.default", "root.apps", "root.shared.a", "root.shared.b")
RUNNING = (
    "SELECT l.id, j.id, l.nodes, j.state, coalesce(j.array_job, j.id), j.array_task, l.devices"
    " FROM allocations l JOIN jobs j ON j.allocation_id = l.id"
    " WHERE j.state IN ('allocated', 'running') ORDER BY l.id"
)


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


def a_job(draw, now):
    nodes = draw.choice([1, 1, 1, 2, 3])
    array = draw.choice([None, None, None, "3", "0-3", "1-9:2", "0-7%2", "2,5-6,9%1"])
    is_held = draw.random() < 0.05
    return builder.accepted(
        draw.choice(["alice", "bob"]),
        queue=draw.choice(LEAVES),
        class_value=draw.randrange(4),
        nodes=nodes,
        min_nodes=draw.randint(1, nodes),
        held=is_held,
        array=None if array is None else parse_array(array),
        resources={"vcore": draw.choice([500, 1000, 2000, 4000]), **draw.choice(OTHERS)},
        request={
            "held": is_held,
            "array": array,
            "time_limit_s": draw.choice([None, 30.0, 60.0, 90.5, 300.0]),
            "application": draw.choice([None, None, "one", "two", "three"]),
            "constraints": draw.choice([None, None, None, "rack=r1", "rack notin (r1)"]),
            "exclusive": draw.random() < 0.1,
            "begin_at": draw.choice([None] * 9 + [now + 1000]),
            "depends_on": draw.choice([[]] * 9 + [[{"type": "afterok", "job": 1}]]),
        },
    )


async def add_nodes(cluster):
    for place in range(5):
        given = NodeRegistration(
            resources={"vcore": (4, 8)[place % 2], "memory": "8Gi", **({"gpu": 2} if place == 4 else {})},
            labels={"rack": f"r{place % 3}"} if place else {},
            agent="agent",
            devices=DEVICES[: (0, 2, 4, 3, 0)[place]],
        )
        await cluster.database.write(lambda c, place=place, given=given: register_node(c, f"n{place}", given, NOW))


async def go_on(cluster, draw, now):
    """Some of what is allocated begins, some of what runs ends."""
    for allocation, job, nodes, state, *_ in cluster.rows(RUNNING):
        kind = draw.choice(["started", "started", None] if state == "allocated" else ["ended", None, None])
        if kind is None:
            continue
        end = {"exit_status": 0, "started_at": now - 1} if kind == "ended" else {}
        report = Report(allocation=allocation, job=job, kind=kind, at=now, **end)
        await cluster.report(*[(node, report) for node in json.loads(nodes)], at=now)


async def split(cluster, draw, now):
    """Some tasks of a waiting array get records of their own, as if each had been changed alone."""
    arrays = cluster.rows('SELECT id, "array" FROM jobs WHERE "array" IS NOT NULL ORDER BY id')
    for array, indices in draw.sample(arrays, min(len(arrays), 2)):
        chosen = draw.sample(list(each(read(indices))), 1)
        await cluster.database.write(lambda c, array=array, chosen=chosen: split_these(c, array, of(chosen), "x", now))


def decided(cluster, queues=QUEUES):
    """By evaluate, of a dump: allocations, reservations, and why others wait."""
    with closing(open_for_reading(cluster.database.path)) as connection:
        document = dump(connection, cluster.configuration, queues).document
    found = msgspec.to_builtins(Evaluator().evaluate(msgspec.json.encode(document)))
    assert found["rejected"] == []
    tasks = {id_: own for id_, *own in cluster.rows("SELECT id, array_job, array_task FROM jobs WHERE array_job > 0")}
    return (
        [
            (*tasks.get(row["job"], (row["job"], row.get("task"))), row["nodes"], row.get("devices"))
            for row in found["allocations"]
        ],
        sorted({row["job"]: _reserved(row) for row in reversed(found["reservations"])}.values()),
        {row["id"]: row["reason"] for row in found["jobs"] if row["reason"]},
    )


def _reserved(row):
    """Of an array, the records have the reservation of the first task alone."""
    return row["job"], row["nodes"], row["starts_at"]


def recorded(cluster, since):
    """As :func:`decided`, of the records."""
    reserved = cluster.rows("SELECT job_id, nodes, starts_at FROM reservations ORDER BY job_id")
    return (
        [
            (of, task, json.loads(nodes), devices and json.loads(devices))
            for id_, _, nodes, _, of, task, devices in cluster.rows(RUNNING)
            if id_ > since
        ],
        [(job, json.loads(nodes), starts_at) for job, nodes, starts_at in reserved],
        dict(cluster.rows("SELECT id, reason FROM job WHERE state = 'pending'")),
    )


def assert_same_reasons(found, expected, array_of):
    """What no node had room for from the beginning waits for no turn: its quotas are those of the cycle's end.

    The scheduler has one reason for all jobs of a queue and a kind, that of the first one: also for tasks of an array.
    """
    of_array = {}
    for job, reason in expected.items():
        of_array.setdefault(array_of.get(job, job), set()).add(reason)
    assert found.keys() == expected.keys()
    for job, reason in found.items():
        by_the_end = reason in ("queue quota", "user limit") and expected[job] in ("no node fits", "resources")
        assert reason == expected[job] or by_the_end or reason in of_array[array_of.get(job, job)], job


POLICIES = ("", '[priority]\npolicy = "fcfs"\n', "")
"""By seed."""
UNSORTED = 2
"""The seed whose leaves are not sorted by priority."""


@pytest.mark.parametrize("backfill", ["easy", "conservative", "none", "strict", "shortest"])
@pytest.mark.parametrize("seed", range(3))
async def test_the_scheduler_decides_what_evaluate_decides_of_a_dump(broker, tmp_path, backfill, seed):
    draw, now, n_started = random.Random(f"{backfill}{seed}"), NOW, 0
    (tmp_path / "config").mkdir()
    queues = json.loads(json.dumps(QUEUES))
    if seed == UNSORTED:
        for leaf in queues["partitions"][0]["queues"][0]["queues"][:2]:
            leaf.setdefault("properties", {})["application.sort.priority"] = "disabled"
    (tmp_path / "config/queues.yaml").write_text(json.dumps(queues))
    rule = 'backfill_order = "shortest"' if backfill == "shortest" else f'backfill = "{backfill}"'
    (tmp_path / "config/rankd.toml").write_text(f"[scheduling]\n{rule}\nreserve_depth = 2\n{POLICIES[seed]}")
    own = load_configuration(tmp_path / "config")
    configuration = msgspec.structs.replace(builder.configuration(), settings=own.settings, partitions=own.partitions)
    async with a_cluster(tmp_path, broker.url, configuration) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await add_nodes(cluster)
        for _ in range(6):
            now += 10
            await go_on(cluster, draw, now)
            for _ in range(draw.randint(1, 8)):
                await cluster.submit(a_job(draw, now), at=now)
            await split(cluster, draw, now)
            await prioritizer.run_once(now)
            [(since,)] = cluster.rows("SELECT coalesce(max(id), 0) FROM allocations")
            expected = decided(cluster, queues)
            if not await scheduler.run_once(now):
                continue  # nothing that came can run yet: no trigger, no cycle
            found = recorded(cluster, since)
            assert found[:2] == expected[:2]
            array_of = dict(cluster.rows("SELECT id, array_job FROM jobs WHERE array_job > 0"))
            assert_same_reasons(found[2], expected[2], array_of)
            n_started += len(found[0])
        assert n_started > 4
