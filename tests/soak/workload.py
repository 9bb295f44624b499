"""Users who submit by request and by the enqueue subject, cancel, hold, release and retry, and ask until they know.

They sleep as users do: between submissions, before they change their mind, and before they ask again.
"""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import nats.errors
import nats.js.errors
from soak.cluster import Cluster

from rankd.bus.client import PatientClient

USERS = ("ann", "bea", "cid", "dan")
PER_SECOND = 3.5
"""About what the nodes can run while faults are at work; a backlog would only prolong the settling."""
MOST_OPEN = 60
"""The most open jobs, if the cluster counts them. On a loaded machine, more jobs would only wait."""
ASK_PATIENCE_S = 3.0
NOT_NOW = {"not_ended", "nothing_to_retry"}
"""What a user hears who retries a job that has not ended, or failed tasks where none did."""

DEVICES = ({"gpu": 1}, {"gpu": 1}, {"gpu": 2}, {"gpu:a100": 1}, {"gpu:v100": 1}, {"gpu:a100": 1, "gpu:v100": 1})
"""Each is on both nodes that have devices."""
WITH_DEVICES = 0.3
NOTE = """echo "$RANKD_ALLOCATION_ID $RANKD_NODE_RANK $RANKD_JOB_ID $RANKD_GPU_IDS|$CUDA_VISIBLE_DEVICES" >> {starts}
lock=7
for id in $(echo "$RANKD_GPU_IDS" | tr , ' '); do
    eval "exec $lock>> {locks}/$id"
    flock -n $lock || echo "allocation $RANKD_ALLOCATION_ID runs beside another one on $id" >> {clashes}
    lock=$((lock + 1))
done
"""
"""Each start writes a line before anything else, and locks its devices until its last process has ended."""

LOST = (nats.errors.Error, nats.js.errors.Error, TimeoutError, OSError)


async def quiet(_error: Exception) -> None:
    """The broker is killed on purpose."""


class Workload:
    """``accepted`` are ids by (user, key) as the intake said; ``enqueued`` what the broker acknowledged.

    ``retried``: of which job an accepted one is a retry, by its id. ``arrays``: the indices of accepted arrays.
    """

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.accepted: dict[tuple[str, str], int] = {}
        self.enqueued: set[tuple[str, str]] = set()
        self.retried: dict[int, int] = {}
        self.arrays: dict[int, str] = {}
        self.refused: list[str] = []
        self._cluster = cluster
        self._random = random.Random(seed)
        self._client: nats.NATS | None = None

    async def run(self, seconds: float) -> None:
        """Everything that was begun is known when this returns."""
        self._client = PatientClient()
        await self._client.connect(
            self._cluster.links["client"].urls, max_reconnect_attempts=-1, reconnect_time_wait=0.1, error_cb=quiet
        )
        end = asyncio.get_running_loop().time() + seconds
        number = 0
        async with asyncio.TaskGroup() as group:
            while asyncio.get_running_loop().time() < end:
                if self._cluster.open_jobs < MOST_OPEN:
                    self._cluster.open_jobs += self._cluster.counts_jobs  # until somebody counts again
                    group.create_task(self._one(f"job-{number}"))
                    number += 1
                await asyncio.sleep(self._random.expovariate(PER_SECOND))
        await self._client.close()

    async def _one(self, key: str) -> None:
        user, job = self._random.choice(USERS), self._job(key)
        kind, delay = self._random.random(), self._random.uniform(0, 2)
        if kind < 0.2:
            await self._enqueue(user, job)
            return
        if kind < 0.25:
            job["urgency"] = 0  # held
        answer = await self._ask(user, "job.submit", job)
        if "id" not in answer:
            self.refused.append(f"{key}: {answer}")
            return
        self.accepted[user, key] = answer["id"]
        if "tasks" in answer:
            self.arrays[answer["id"]] = job["array"].partition("%")[0]
        if kind < 0.25:
            await self._ask(user, "job.release", {"id": answer["id"]})
        elif kind < 0.32:
            await asyncio.sleep(delay)
            await self._ask(user, "job.cancel", {"id": answer["id"]})
        elif kind < 0.45:
            await self._retry(user, f"{key}-again")

    async def _retry(self, user: str, key: str) -> None:
        """Submit one of the user's own jobs again, whether it has ended or not."""
        job = self._random.choice([id_ for (owner, _), id_ in self.accepted.items() if owner == user])
        body = {"id": job, "key": key, "failed": self._random.random() < 0.5}
        answer = await self._ask(user, "job.retry", body)
        if "id" in answer:
            self.accepted[user, key], self.retried[answer["id"]] = answer["id"], job
        elif answer.get("code") not in NOT_NOW:
            self.refused.append(f"{key}: {answer}")

    def _job(self, key: str) -> dict[str, Any]:
        kind, duration = self._random.random(), self._random.uniform(0, 1.5)
        cluster = self._cluster
        note = NOTE.format(starts=cluster.starts, locks=cluster.locks, clashes=cluster.clashes)
        ending = "exit 3" if kind < 0.05 else "exit 0"
        job: dict[str, Any] = {
            "command": ["sh", "-c", f"{note}sleep {duration:.2f}; {ending}"],
            "key": key,
            "resources": {"vcore": self._random.choice([1, 1, 1, 2])},
            "cwd": str(cluster.directory),
            "stdout": "/dev/null",
            "stderr": "/dev/null",
        }
        if self._random.random() < WITH_DEVICES:
            job["resources"] |= self._random.choice(DEVICES)
        if kind >= 0.9:
            job["array"] = self._random.choice(["0-4", "1-9:2%2", "3,5-6"])
        if self._random.random() < 0.25:
            job |= self._waiting()
        if 0.05 <= kind < 0.12:
            job["nodes"] = 2
        elif 0.12 <= kind < 0.17:
            job |= {"time_limit_s": 0.5, "command": ["sh", "-c", f"{note}exec sleep 30"]}
        return job

    def _waiting(self) -> dict[str, Any]:
        """A dependency of any kind. A job that can never start is cancelled, so that all end."""
        kind = self._random.choice(["afterok", "afterany", "afternotok", "after", "aftercorr", "singleton"])
        if kind == "singleton":
            return {"name": self._random.choice("ab"), "depends_on": [{"type": kind}]}
        known = list(self.arrays if kind == "aftercorr" else self.accepted.values())
        if not known:
            return {}
        job: int | str = self._random.choice(known)
        more = {"array": self.arrays[job]} if kind == "aftercorr" else {}
        if kind != "aftercorr" and job in self.arrays and self._random.random() < 0.5:
            job = f"{job}_{self.arrays[job][0]}"
        return {"depends_on": [{"type": kind, "job": job}], "cancel_if_unmet": True, **more}

    async def _ask(self, user: str, verb: str, body: object) -> dict[str, Any]:
        """Again and again until somebody answers: a submission has a key."""
        subject, payload = f"rankd.v1.user.{user}.{verb}", json.dumps(body).encode()
        while True:
            try:
                reply = await self._client.request(subject, payload, timeout=ASK_PATIENCE_S)
            except LOST:
                await asyncio.sleep(0.1)
                continue
            if (reply.headers or {}).get("Nats-Service-Error-Code") in ("503", "500"):
                await asyncio.sleep(0.1)
                continue
            return json.loads(reply.data)

    async def _enqueue(self, user: str, job: dict[str, Any]) -> None:
        key = job.pop("key")
        while True:
            try:
                await self._client.jetstream().publish(
                    f"rankd.v1.enqueue.{user}",
                    json.dumps(job).encode(),
                    timeout=ASK_PATIENCE_S,
                    headers={"Nats-Msg-Id": key},
                )
            except LOST:
                await asyncio.sleep(0.1)
                continue
            self.enqueued.add((user, key))
            return
