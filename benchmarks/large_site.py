"""A large site for benchmarks: 5,000 associations, 2,000 leaf queues in 4 levels, any number of pending jobs.

The configuration looks as an administrator would write it. Jobs are written into the database as the intake writes
them, row for row, but in large transactions.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import numpy as np

from rankd.config.configuration import load_configuration
from rankd.core.model.job import JobRequest
from rankd.core.placement.request import Shape
from rankd.store.engine.driver import sqlite3
from rankd.store.engine.url import open_database
from rankd.store.record.catalog import Catalog, sync_catalog
from rankd.store.schema.migration import upgrade

WEEK_S = 604800.0
FANOUT = (10, 10, 20)
ACCOUNTS, USERS_PER_ACCOUNT = 200, 25
SHAPES = 2_000

_TOML = """
default_qos = "normal"
[priority]
period_s = {period_s}
[admission]
unknown_association = "default"
max_pending_per_user = 100_000_000
max_pending = 100_000_000
[[qos]]
name = "normal"
priority = 10
[[qos]]
name = "high"
priority = 100
"""


def write_config(directory: Path, period_s: float = 5.0, fanout: Sequence[int] = FANOUT) -> Path:
    """rankd.toml, accounts.yaml, queues.yaml; ``fanout``: children of each queue, level by level below root."""
    directory.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    (directory / "rankd.toml").write_text(_TOML.format(period_s=period_s))
    accounts = [
        {
            "name": f"a{at}",
            "shares": int(rng.integers(1, 20)),
            "users": [{"name": f"u{at}-{user}"} for user in range(USERS_PER_ACCOUNT)],
        }
        for at in range(ACCOUNTS)
    ]
    (directory / "accounts.yaml").write_text(json.dumps({"accounts": accounts}))
    root = {"name": "root", "queues": list(_queues(0, rng, fanout))}
    (directory / "queues.yaml").write_text(json.dumps({"partitions": [{"name": "default", "queues": [root]}]}))
    return directory


def _queues(level: int, rng: np.random.Generator, fanout: Sequence[int]) -> Iterator[dict[str, object]]:
    for at in range(fanout[level]):
        properties = {"priority.policy": "fence"} if rng.random() < 0.05 else {}
        if rng.random() < 0.2:
            properties["priority.offset"] = str(rng.integers(-500, 500))
        below = list(_queues(level + 1, rng, fanout)) if level + 1 < len(fanout) else []
        yield {"name": f"q{at}", "properties": properties, **({"queues": below} if below else {})}


async def make_database(path: Path, config: Path, n_jobs: int) -> None:
    """Make the schema, the configuration's names, and ``n_jobs`` pending jobs of all users in all queues."""
    configuration = load_configuration(config)
    async with open_database(path) as database:
        await upgrade(database)
        catalog = await database.write(lambda c: sync_catalog(c, configuration, time.time()))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        _fill(connection, catalog, n_jobs)
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _fill(connection: sqlite3.Connection, catalog: Catalog, n_jobs: int) -> None:
    users = [(account, user) for account, user in catalog.associations if user]
    parents = {path.rpartition(".")[0] for _, path in catalog.queues}
    leaves = sorted(id_ for (_, path), id_ in catalog.queues.items() if path not in parents)
    rng = np.random.default_rng(n_jobs)
    columns = {
        "users": _zipf(rng, len(users), n_jobs).tolist(),
        "leaves": _zipf(rng, len(leaves), n_jobs).tolist(),
        "shapes": _zipf(rng, SHAPES, n_jobs).tolist(),
        "urgencies": rng.choice([16, 16, 16, 12, 8], n_jobs).tolist(),
        "at": np.sort(time.time() - rng.exponential(WEEK_S / 2, n_jobs)).tolist(),
    }
    shapes = [_shape(number) for number in range(SHAPES)]
    request = msgspec.json.encode(JobRequest(command=["simulate", "--steps", "1000"], name="step")).decode()
    names = None
    rows, events = [], []
    for place in range(n_jobs):
        account, user = users[columns["users"][place]]
        shape, at = shapes[columns["shapes"][place]], columns["at"][place]
        row = {
            "id": place + 1, "revision": place + 1, "user": user,
            "association_id": catalog.associations[account, user], "queue_id": leaves[columns["leaves"][place]],
            "qos_id": catalog.qos["normal" if place % 9 else "high"], "name": "step", "state": "pending", "held": 0,
            "class_value": 0, "preemption_policy": "PreemptLowerPriority", "urgency": columns["urgencies"][place],
            "nodes": shape[0].nodes, "min_nodes": shape[0].nodes, "vcore": shape[0].resources["vcore"],
            "resources": shape[1], "exclusive": 0, "shape": shape[2], "time_limit_s": 3600.0, "requeue": 1,
            "submitted_at": at, "eligible_at": at, "request": request,
        }  # fmt: skip
        names = names or list(row)
        rows.append(tuple(row.values()))
        events.append((place + 1, place + 1, "submit", "pending", at, user))
        if len(rows) == 10_000 or place + 1 == n_jobs:
            _insert(connection, names, rows, events)
            rows, events = [], []
    connection.execute("INSERT OR REPLACE INTO relay_marks VALUES ('job_events', ?)", (n_jobs,))


def _insert(connection: sqlite3.Connection, names: list[str], rows: list[tuple], events: list[tuple]) -> None:
    quoted = ", ".join(f'"{name}"' for name in names)
    connection.executemany(f"INSERT INTO jobs ({quoted}) VALUES ({', '.join('?' * len(names))})", rows)
    connection.executemany(
        "INSERT INTO job_events (id, job_id, event, state, at, actor) VALUES (?, ?, ?, ?, ?, ?)", events
    )


def _shape(number: int) -> tuple[Shape, str, int]:
    resources = {"vcore": 1000 * (1 + number % 64), "memory": (1 + number) * 2**20}
    shape = Shape(
        partition="default", nodes=1 + number % 3, min_nodes=1 + number % 3, resources=resources, constraints=None,
        exclusive=False,
    )  # fmt: skip
    return shape, json.dumps(resources), shape.key()


def request_like(number: int) -> dict[str, object]:
    """A submission with the request of shape ``number``, below 2,000."""
    shape, *_ = _shape(number)
    resources = {"vcore": shape.resources["vcore"] // 1000, "memory": shape.resources["memory"]}
    return {"nodes": shape.nodes, "resources": resources, "time_limit_s": 3600.0}


def _zipf(rng: np.random.Generator, size: int, n: int) -> np.ndarray:
    """Indices below ``size``, a few of them frequent."""
    weights = 1.0 / np.arange(1, size + 1) ** 0.8
    return rng.permutation(size)[np.searchsorted(np.cumsum(weights) / weights.sum(), rng.random(n))]


if __name__ == "__main__":
    import sys

    directory, n = Path(sys.argv[1]), int(sys.argv[2])
    asyncio.run(make_database(directory / "rankd.db", write_config(directory / "config"), n))
