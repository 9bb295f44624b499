"""The cost of the largest permitted value of each field of a submission: for reading, admission and a cycle.

Also: how many distinct jobs a second are read and admitted, and what a database of jobs with thousands of resource
types costs the scheduler. Shows the processor time of the best of several runs, because other processes share the
machine.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable

import msgspec
import numpy as np
from measure import report

from rankd.core.admission.admission_cache import Admission
from rankd.core.admission.admit import AdmissionTables, admit
from rankd.core.admission.priority_class import ClassTable
from rankd.core.admission.queue_entry import queue_entries
from rankd.core.admission.submitter import Submitter
from rankd.core.model.job import JobRequest
from rankd.core.model.node import Node
from rankd.core.model.queue import ChildTemplate, Partition, Queue, QueueProperties
from rankd.core.model.setting import Settings
from rankd.core.placement.cycle import run_cycle
from rankd.core.placement.kind_table import KindTable
from rankd.core.placement.problem import PartitionProblem, WaitingJobs
from rankd.core.placement.request import Kind, Shape
from rankd.core.ranking.queue_view import QueueView
from rankd.services.intake.submission import read_submission
from rankd.wire.codec import decode_job
from rankd_plugins.node_sort.fair import Fair

REPEATS = 7
ALICE = Submitter("alice", privileged=False)
VALUES: dict[str, object] = {
    "command": ["x" * 15] * 8192,
    "name": "n" * 256,
    "queue": ".".join(["root", *["q" * 31] * 31]),
    "resources": {"vcore": 1, **{f"kind{number}": 1 for number in range(31)}},
    "constraints": ",".join(f"key{number}{'x' * 200}/name in (a,b,c,d)"[:250] for number in range(64)),
    "constraints (values)": ",".join(f"k{n} in ({','.join(f'v{v}' for v in range(50))})" for n in range(60)),
    "depends_on": [{"type": "afterok", "job": number} for number in range(1, 1001)],
    "env": {f"NAME{number:05}": "x" * 5 for number in range(8192)},
    "comment": "x" * 4096,
    "key": "k" * 256,
    "application": "a" * 256,
    "cwd": "/" + "x" * 4000,
    "nodes": 1_000_000,
}


def tables() -> AdmissionTables:
    """One partition in which any queue may be created."""
    root = Queue(name="root", path="root", parent=True, child_template=ChildTemplate())
    return AdmissionTables(
        settings=Settings(),
        classes=ClassTable.of(),
        partitions=("default",),
        queues=queue_entries(Partition(root=root)),
        associations=frozenset({("physics", "alice")}),
        accounts=frozenset({"physics"}),
        default_accounts={"alice": "physics"},
    )


def least_ms(action: Callable[[], object]) -> float:
    """Processor time of the best run, in milliseconds."""
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return round(1000 * min(times), 3)


def cycle_of(kinds: list[Kind], known: frozenset[str] | None = None) -> Callable[[], object]:
    """A whole cycle without data of an earlier one: 100 nodes, one leaf, a job of each kind."""
    views = [QueueView(id=0, path="root", parent=None, properties=QueueProperties())]
    views.append(QueueView(id=1, path="root.a", parent=0, properties=QueueProperties()))
    places = np.arange(len(kinds))
    waiting = {1: WaitingJobs(jobs=places + 1, priorities=places * 0, kinds=places)}
    capacity = {"vcore": 8000, **{f"kind{number}": 4 for number in range(31)}}
    nodes = [Node(name=f"n{number:03}", capacity=capacity, labels={"key1": "a"}) for number in range(100)]

    def run() -> object:
        table = KindTable(kinds, known)
        return run_cycle(PartitionProblem(queues=views, waiting=waiting, kinds=table, used={}, nodes=nodes), Fair())

    return run


def kind_of(fields: dict[str, object]) -> Kind:
    """The kind of a request with these fields."""
    job = admit(msgspec.convert({"command": ["true"], **fields}, JobRequest), ALICE, tables())
    shape = Shape(
        partition="default",
        nodes=job.nodes,
        min_nodes=job.min_nodes,
        resources=job.resources,
        constraints=job.request.constraints,
    )
    return Kind(shape=shape)


def fields_table() -> list[dict[str, object]]:
    """Milliseconds by field."""
    rows = []
    known = tables()
    for name, value in VALUES.items():
        fields = {name.partition(" ")[0]: value}
        payload = msgspec.json.encode({"command": ["true"], **fields})
        kinds = [kind_of(fields)] * 100 if name.split()[0] in ("resources", "constraints", "nodes") else []
        rows.append(
            {
                "field": name,
                "bytes": len(payload),
                "admit_ms": least_ms(lambda payload=payload: admit(decode_job(payload), ALICE, known)),
                "cycle_ms": least_ms(cycle_of(kinds)) if kinds else "",
            }
        )
    return rows


def admission_rate() -> dict[str, object]:
    """A batch of 10,000 jobs that differ in an argument and a variable."""
    jobs = [
        {"command": ["python3", "train.py", str(n)], "name": f"train-{n}", "env": {"SEED": str(n), "HOME": "/home/a"},
         "resources": {"vcore": 2, "memory": "4Gi"}, "time_limit_s": 3600, "key": f"k{n}", "cwd": "/home/a"}
        for n in range(10_000)
    ]  # fmt: skip
    payload = msgspec.json.encode({"jobs": jobs})
    known = tables()
    known = msgspec.structs.replace(known, queues=queue_entries(_with_default()))
    took = least_ms(lambda: read_submission(payload, ALICE, Admission(known)))
    return {"jobs": 10_000, "batch_ms": took, "us_per_job": round(took / 10, 1)}


def _with_default() -> Partition:
    leaf = Queue(name="default", path="root.default")
    return Partition(root=Queue(name="root", path="root", parent=True, queues=(leaf,)))


def many_types() -> list[dict[str, object]]:
    """700 jobs with 100 types each that no node offers, as databases of earlier versions may have them."""
    kinds = [
        Kind(shape=Shape(partition="default", resources={"vcore": 1000, **{f"t{n}x{t}": 1 for t in range(100)}}))
        for n in range(700)
    ]
    rows = []
    for title, known in (("columns of what nodes offer", frozenset({"vcore"})), ("columns of all types", None)):
        tracemalloc.start()
        start = time.process_time()
        cycle_of(kinds, known)()
        seconds = time.process_time() - start
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        rows.append({"matrices": title, "peak_MB": round(most / 2**20, 1), "cycle_s": round(seconds, 3)})
    return rows


def main() -> int:
    """Run all and print the tables."""
    fields, rate, types = fields_table(), admission_rate(), many_types()
    report("limits", "the largest value of each field; a cycle of 100 jobs on 100 nodes", fields)
    report("limits-admission", "one message of distinct jobs", [rate])
    report("limits-types", "a first cycle over 700 jobs of 100 resource types each", types)
    return 0


if __name__ == "__main__":
    sys.exit(main())
