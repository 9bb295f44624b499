"""What must hold after everything: read from the records, the jobs' own notes and the stream of events."""

from __future__ import annotations

import collections
import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from soak.cluster import NODES

from rankd.bus.client import PatientClient
from rankd.core.model.array import parse_array
from rankd.core.model.index_set import each, read
from rankd.store.engine.driver import sqlite3

HALF_LIFE_S = 600.0
FINAL = ("completed", "failed", "timeout", "cancelled", "node_lost")


def rows(database: Path, query: str, *values: object) -> list[sqlite3.Row]:
    connection = sqlite3.connect(database, timeout=30)
    connection.row_factory = sqlite3.Row
    try:
        return connection.execute(query, values).fetchall()
    finally:
        connection.close()


def open_jobs(database: Path) -> int:
    return rows(database, "SELECT count(*) AS n FROM jobs WHERE state IN ('pending', 'allocated', 'running')")[0]["n"]


def jobs_by_name(database: Path) -> dict[str, dict[str, object]]:
    """State, cause, exit status and steps of jobs, by their name."""
    query = """SELECT j.id, j.name, j.state, j.exit_status, e.cause FROM jobs j JOIN job_events e ON e.id = (
    SELECT max(id) FROM job_events WHERE job_id = j.id)"""
    steps = collections.defaultdict(list)
    of_steps = """SELECT l.job_id, s.number, s.ended_at, s.exit_status, s.cause
    FROM job_steps s JOIN allocations l ON l.id = s.allocation_id ORDER BY s.allocation_id, s.number"""
    for row in rows(database, of_steps):
        steps[row["job_id"]].append(row)
    return {row["name"]: dict(row) | {"steps": steps[row["id"]]} for row in rows(database, query)}


@dataclass(frozen=True)
class Progress:
    """How far the records are: two that are equal say that nothing happened between them."""

    open_jobs: int
    recorded: int
    published: int
    uncharged: int
    taken: int

    @property
    def done(self) -> bool:
        """Every job has ended, every event is published, every allocation charged."""
        return not self.open_jobs and self.recorded == self.published and not self.uncharged


_PROGRESS = """
SELECT (SELECT count(*) FROM jobs WHERE state IN ('pending', 'allocated', 'running')) AS open_jobs,
       (SELECT coalesce(max(id), 0) FROM job_events) AS recorded,
       coalesce((SELECT event_id FROM relay_marks WHERE name = 'job_events'), 0) AS published,
       (SELECT count(*) FROM allocations WHERE NOT charged) AS uncharged,
       (SELECT count(*) FROM allocation_nodes WHERE taken_at IS NOT NULL) AS taken"""


def progress(database: Path) -> Progress:
    return Progress(**dict(rows(database, _PROGRESS)[0]))


_PARTS = """
SELECT l.id, l.allocated_at, l.cancel, p.node, p.taken_at, p.started_at, p.ended_at, p.cause, n.state, n.heartbeat_at,
       n.drain_reason
FROM allocations l JOIN allocation_nodes p ON p.allocation_id = l.id LEFT JOIN nodes n ON n.name = p.node
WHERE l.job_id = ? AND l.id = (SELECT max(id) FROM allocations WHERE job_id = l.job_id) ORDER BY p.node"""


def stuck_jobs(database: Path) -> list[str]:
    """For each job that has not ended: its last events, and where its last allocation got to."""
    query = "SELECT id, state FROM jobs WHERE state IN ('pending', 'allocated', 'running') ORDER BY id"
    return [f"job {job['id']} is {job['state']}: {_last_heard(database, job['id'])}" for job in rows(database, query)]


def _last_heard(database: Path, job: int) -> str:
    query = "SELECT event, at, actor, cause FROM job_events WHERE job_id = ? ORDER BY id DESC LIMIT 4"
    events = [f"{row['event']} {_clock(row['at'])} {row['cause'] or ''}".strip() for row in rows(database, query, job)]
    parts = [
        f"allocation {row['id']} ({_clock(row['allocated_at'])}, cancel {row['cancel']}) on {row['node']}:"
        f" taken {_clock(row['taken_at'])}, started {_clock(row['started_at'])}, ended {_clock(row['ended_at'])}"
        f" {row['cause'] or ''}; the node is {row['state']}, heard at {_clock(row['heartbeat_at'])}"
        f" {row['drain_reason'] or ''}"
        for row in rows(database, _PARTS, job)
    ]
    return "; ".join([", ".join(reversed(events)), *parts]).rstrip()


def _clock(at: float | None) -> str:
    """As in the services' logs."""
    return "never" if at is None else datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S.%f")[:-3]


def lost_submissions(database: Path, accepted: dict[tuple[str, str], int], enqueued: set[tuple[str, str]]) -> list[str]:
    """Every answered and every acknowledged submission is one job."""
    known = {(row["user"], row["key"]): row["id"] for row in rows(database, 'SELECT "user", "key", id FROM jobs')}
    wrong = [f"{who} was answered {id_}, is {known.get(who)}" for who, id_ in accepted.items() if known.get(who) != id_]
    return wrong + [f"{who} was enqueued and is no job" for who in enqueued if who not in known]


def wrong_retries(database: Path, retried: dict[int, int]) -> list[str]:
    """Every retry names its job, belongs to the same user, and was submitted after the end of what it repeats."""
    query = """SELECT n.id, n.retry_of, n."user" = o."user" AS is_own, o.ended_at <= n.submitted_at AS is_after
    FROM jobs n LEFT JOIN jobs o ON o.id = n.retry_of WHERE n.retry_of IS NOT NULL AND n.array_job IS NULL"""
    found = {row["id"]: row for row in rows(database, query)}
    wrong = [
        f"job {new} should retry {old}: {found.get(new)}" for new, old in retried.items() if _of(found, new) != old
    ]
    return wrong + [f"job {row['id']} is no retry: {dict(row)}" for row in found.values() if not _is_whole(row)]


def _of(found: dict[int, sqlite3.Row], job: int) -> int | None:
    return found[job]["retry_of"] if job in found else None


def _is_whole(row: sqlite3.Row) -> bool:
    return bool(row["is_own"] and row["is_after"])


def wrong_ends(database: Path) -> list[str]:
    """Every job reached exactly one final state, and nothing happened to it afterwards."""
    wrong = []
    states = {row["id"]: row["state"] for row in rows(database, "SELECT id, state FROM jobs")}
    ends: collections.Counter[int] = collections.Counter()
    for row in rows(database, "SELECT job_id, event, state FROM job_events ORDER BY id"):
        if ends[row["job_id"]]:
            wrong.append(f"job {row['job_id']}: {row['event']} after its end")
        ends[row["job_id"]] += row["state"] in FINAL
    wrong += [f"job {job} is {state}" for job, state in states.items() if state not in FINAL]
    return wrong + [f"job {job} ended {ends[job]} times" for job in states if ends[job] != 1]


def double_starts(starts: Path) -> list[str]:
    """No allocation started twice on a node."""
    seen = collections.Counter(tuple(line.split()[:2]) for line in starts.read_text().splitlines())
    return [f"allocation {allocation} rank {rank}: {n} starts" for (allocation, rank), n in seen.items() if n > 1]


def over_allocations(database: Path) -> list[str]:
    """Replays the events: at no instant do jobs hold more of a node than it has."""
    wrong = []
    allocations: dict[int, list[sqlite3.Row]] = collections.defaultdict(list)
    for row in rows(database, "SELECT job_id, nodes, resources FROM allocations ORDER BY id"):
        allocations[row["job_id"]].append(row)
    used: collections.Counter[str] = collections.Counter()
    held: dict[int, tuple[list[str], int]] = {}
    for row in rows(database, "SELECT id, job_id, event, state FROM job_events ORDER BY id"):
        job = row["job_id"]
        if row["event"] == "allocate":
            given = allocations[job].pop(0)
            held[job] = (json.loads(given["nodes"]), json.loads(given["resources"])["vcore"])
            for node in held[job][0]:
                used[node] += held[job][1]
                if used[node] > NODES[node] * 1000:
                    wrong.append(f"event {row['id']}: {node} holds {used[node] / 1000:g} cores")
        elif row["state"] not in ("allocated", "running") and job in held:
            nodes, vcore = held.pop(job)
            for node in nodes:
                used[node] -= vcore
    return wrong


def wrong_usage(database: Path) -> list[str]:
    """The accumulators equal what the recorded allocations say, to 1e-9."""
    wrong = []
    sums: collections.Counter[int] = collections.Counter()
    accounts = rows(database, 'SELECT id, "user", usage, usage_at FROM associations')
    now = max((row["usage_at"] for row in accounts), default=0.0)
    charged = rows(
        database,
        "SELECT j.association_id AS association, l.charge_rate AS rate, l.allocated_at AS a, l.ended_at AS b"
        " FROM allocations l JOIN jobs j ON j.id = l.job_id WHERE l.charged",
    )
    for row in charged:
        decayed = math.exp2((row["b"] - now) / HALF_LIFE_S) - math.exp2((row["a"] - now) / HALF_LIFE_S)
        sums[row["association"]] += row["rate"] * HALF_LIFE_S / math.log(2) * decayed
    for row in accounts:
        usage = row["usage"] * math.exp2((row["usage_at"] - now) / HALF_LIFE_S)
        if not math.isclose(usage, sums[row["id"]], rel_tol=1e-9, abs_tol=1e-9):
            wrong.append(f"association {row['id']}: {usage!r} accumulated, {sums[row['id']]!r} by the records")
    uncharged = rows(database, "SELECT id FROM allocations WHERE NOT charged")
    return wrong + [f"allocation {row['id']} is not charged" for row in uncharged]


def torn_arrays(database: Path) -> list[str]:
    """Every index of an array is in exactly one record, and the array's numbers are those of its tasks."""
    wrong = []
    for array in rows(database, "SELECT * FROM arrays a JOIN jobs j ON j.id = a.job_id"):
        tasks = rows(database, "SELECT array_task, state FROM jobs WHERE array_job = ?", array["id"])
        own = [*each(read(array["array"])), *each(read(array["cancelled"]))]
        found = sorted([*own, *(task["array_task"] for task in tasks)])
        if found != list(each(parse_array(json.loads(array["request"])["array"]).indices)):
            wrong.append(f"array {array['id']} has the indices {found}")
        completed = sum(task["state"] == "completed" for task in tasks)
        if (array["n_completed"], array["n_open"], array["n_pending"]) != (completed, 0, 0):
            wrong.append(f"array {array['id']} counts {dict(array)}")
    return wrong


STARTS = """SELECT j.id, j.name, j."user", j.started_at, d.value ->> '$.type' AS kind, d.value ->> '$.job' AS awaited,
    coalesce(j.array_job, j.id) AS place, j.array_task FROM jobs j, json_each(j.depends_on) d
    WHERE j.started_at IS NOT NULL AND j.allocation_id IS NOT NULL AND j.requeues = 0 ORDER BY j.id"""


def early_starts(database: Path) -> list[str]:
    """No job has started before its dependencies were met; by the last run of the awaited jobs."""
    known = {row["id"]: row for row in rows(database, "SELECT * FROM jobs")}
    tasks = {f"{row['array_job']}_{row['array_task']}": row for row in known.values() if row["array_job"] is not None}
    wrong = []
    for row in rows(database, STARTS):
        if row["kind"] == "singleton":
            awaited = [
                other
                for other in known.values()
                if (other["user"], other["name"]) == (row["user"], row["name"])
                and (other["array_job"] or other["id"]) < row["place"]
            ]
        else:
            name = f"{row['awaited']}_{row['array_task']}" if row["kind"] == "aftercorr" else str(row["awaited"])
            awaited = [tasks[name] if "_" in name and name in tasks else known[int(name.partition("_")[0])]]
        wrong += [f"job {row['id']} started before {other['id']}" for other in awaited if not _is_met(row, other)]
    return wrong


def _is_met(row: sqlite3.Row, other: sqlite3.Row) -> bool:
    is_ok = {"afterok": True, "aftercorr": True, "afternotok": False}.get(row["kind"])
    if is_ok is not None and (other["state"] == "completed") is not is_ok:
        return False
    if row["kind"] == "after":
        return other["requeues"] > 0 or (other["started_at"] or other["ended_at"]) <= row["started_at"]
    return bool(other["ended_at"] <= row["started_at"])


def open_allocations(database: Path) -> list[str]:
    found = rows(database, "SELECT id FROM allocations WHERE ended_at IS NULL")
    return [f"allocation {row['id']} is open" for row in found]


async def wrong_events(database: Path, url: str) -> list[str]:
    """The stream, each id once, is what the records say, in order per job."""
    client = PatientClient()
    await client.connect(url)
    jetstream = client.jetstream()
    state = (await jetstream.stream_info("RANKD_EVENTS")).state
    heard: dict[int, tuple[int, str]] = {}
    wrong: list[str] = []
    last: dict[int, int] = {}
    for number in range(state.first_seq, state.last_seq + 1):
        message = await jetstream.get_msg("RANKD_EVENTS", number)
        if not message.subject.startswith("rankd.v1.event.job."):
            continue
        for event in json.loads(message.data)["events"]:
            if event["id"] in heard:
                continue
            heard[event["id"]] = (event["job"], event["event"])
            if event["id"] < last.get(event["job"], 0):
                wrong.append(f"job {event['job']}: event {event['id']} came after {last[event['job']]}")
            last[event["job"]] = event["id"]
    await client.close()
    recorded = {row["id"]: (row["job_id"], row["event"]) for row in rows(database, "SELECT * FROM job_events")}
    if heard != recorded:
        missing, more = recorded.keys() - heard.keys(), heard.keys() - recorded.keys()
        wrong.append(f"events: {len(missing)} missing {sorted(missing)[:10]}, {len(more)} unknown {sorted(more)[:10]}")
    return wrong
