"""Looking: synchronous queries on the views, for the command line and for the intake's answers alike.

Standard library and msgspec only (SQLAlchemy takes 0.6 s to import): any DB-API connection with ``?``
parameters will do. Callers who need rows of one generation hold one read transaction around their calls.
Amounts come out as users see them: vcore in cores, memory in bytes. JSON columns are decoded.
"""

from __future__ import annotations

import math
import sqlite3
from typing import TYPE_CHECKING

import msgspec

from rankd.core.errors import Refused
from rankd.core.model.quantity import VCORE, Resources
from rankd.core.ranking.sibling import Sibling, ordered
from rankd.store.engine.reading import Reader, Row, fetch
from rankd.store.look.rank_look import whole_ranking
from rankd.wire.message import JobFilter, JobList

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


ALL = 2**31 - 1
"""A limit that limits nothing."""
MANY = 10_000
"""Up to so many jobs are chosen by their ids first, so that the columns of no others are read."""
FEW = 500
"""Up to so many jobs, single look-ups of ranks are faster than reading the whole ranking."""

ACTIVE = ("pending", "allocated", "running")
_ACTIVE_SQL = "state IN ('pending', 'allocated', 'running')"
"""Written as in the partial index on jobs, else SQLite does not see that the index serves."""

_JOB_LIST = """
    id, "user", account, queue, partition, qos, application, name, state, reason, reason_fact,
    expected_start_at, reserved_nodes, held,
    class_value, priority_class, urgency, nodes, cores, resources, constraints, exclusive, time_limit_s,
    begin_at, depends_on, requeues, submitted_at, eligible_at, started_at, ended_at, exit_status, signal,
    nodelist, comment"""

_BREAKDOWN = (
    "class_value",
    "points_sum",
    "priority",
    "override",
    "override_by",
    "rank",
    "generation",
    "ranked_at",
)


def _has_ranking(connection: Reader) -> bool:
    """Whether there was a pass yet: the views with factors appear with the first generation."""
    return bool(fetch(connection, "SELECT 1 AS one FROM sqlite_master WHERE type = 'view' AND name = 'job_priority'"))


def _list(values: Iterable[object]) -> str:
    """Many values as one bound parameter; no limit of SQLite's on their number applies."""
    return msgspec.json.encode(list(values)).decode()


def conditions(wanted: JobFilter) -> tuple[str, list[object]]:
    """The WHERE clause; all conditions hold, a list's entries are alternatives."""
    ids = [*([] if wanted.id is None else [wanted.id]), *(wanted.ids or ())]
    lists: list[tuple[str, Sequence[object] | None]] = [
        ("id", ids if wanted.id is not None or wanted.ids is not None else None),
        ('"user"', wanted.users),
        ("account", wanted.accounts),
        ("partition", wanted.partitions),
        ("state", wanted.states),
        ("name", wanted.names),
        ("qos", wanted.qos),
    ]
    given = [(column, values) for column, values in lists if values is not None]
    terms = [f"{column} IN (SELECT value FROM json_each(?))" for column, _ in given]
    parameters: list[object] = [_list(values) for _, values in given]
    if wanted.queues is not None:
        terms.append("lower(queue) IN (SELECT lower(value) FROM json_each(?))")
        parameters.append(_list(wanted.queues))
    if wanted.after is not None:
        terms.append("id > ?")
        parameters.append(wanted.after)
    if isinstance(wanted, JobList) and wanted.before is not None:
        terms.append("id < ?")
        parameters.append(wanted.before)
    if wanted.states is not None and set(wanted.states) <= set(ACTIVE):
        terms.append(_ACTIVE_SQL)
    return (" WHERE " + " AND ".join(terms) if terms else ""), parameters


def _chosen(wanted: JobFilter) -> str:
    """What jobs are chosen from: with those columns of other tables only that the filter names."""
    columns = ['j.id, j."user", j.state, j.name, j.submitted_at, j.ended_at']
    joins = [""]
    if wanted.accounts is not None:
        columns.append("a.account")
        joins.append("JOIN associations a ON a.id = j.association_id")
    if wanted.queues is not None or wanted.partitions is not None:
        columns.append("q.path AS queue, q.partition")
        joins.append("JOIN queues q ON q.id = j.queue_id")
    if wanted.qos is not None:
        columns.append("s.name AS qos")
        joins.append("JOIN qos s ON s.id = j.qos_id")
    return f"(SELECT {', '.join(columns)} FROM jobs j{' '.join(joins)})"


def _where(wanted: JobFilter, terms: Sequence[str], values: Sequence[object]) -> tuple[str, list[object]]:
    where, parameters = conditions(wanted)
    every = [*([where.removeprefix(" WHERE ")] if where else []), *terms]
    return (f" WHERE {' AND '.join(every)}" if every else ""), [*parameters, *values]


def job_ids(
    connection: Reader, wanted: JobFilter, terms: Sequence[str] = (), values: Sequence[object] = ()
) -> list[int]:
    """Ids of at most ``limit`` jobs: the newest, newest first; with ``after`` the next ones, oldest first.

    ``terms`` are further conditions on the columns of :func:`_chosen`, with ``values`` for their parameters.
    """
    where, parameters = _where(wanted, terms, values)
    order = "id" if wanted.after is not None else "id DESC"
    sql = f"SELECT id FROM {_chosen(wanted)}{where} ORDER BY {order} LIMIT ?"
    return [row["id"] for row in fetch(connection, sql, [*parameters, wanted.limit])]


def count_jobs(connection: Reader, wanted: JobFilter, terms: Sequence[str] = (), values: Sequence[object] = ()) -> int:
    """How many jobs meet the filter, whatever its limit and wherever its page begins."""
    whole = msgspec.structs.replace(wanted, after=None, **({"before": None} if isinstance(wanted, JobList) else {}))
    where, parameters = _where(whole, terms, values)
    return int(fetch(connection, f"SELECT count(*) AS n FROM {_chosen(wanted)}{where}", parameters)[0]["n"])


def jobs(connection: Reader, wanted: JobFilter) -> list[Row]:
    """Jobs in any state, by id; if the limit cuts, the newest (with ``after``: the next ones).

    Those that are ranked also have ``rank`` and ``priority`` (else None).
    """
    if wanted.limit <= MANY:
        return jobs_of(connection, job_ids(connection, wanted))
    where, parameters = conditions(wanted)
    order = "id" if wanted.after is not None else "id DESC"
    sql = f"SELECT {_JOB_LIST} FROM job{where} ORDER BY {order} LIMIT ?"
    return _with_ranks(connection, sorted(fetch(connection, sql, [*parameters, wanted.limit]), key=_id))


def jobs_of(connection: Reader, ids: Sequence[int]) -> list[Row]:
    """These jobs, by id."""
    sql = f"SELECT {_JOB_LIST} FROM job WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
    return _with_ranks(connection, fetch(connection, sql, [_list(ids)]))


def _id(row: Row) -> int:
    return int(row["id"])


def _with_ranks(connection: Reader, rows: list[Row]) -> list[Row]:
    ranks = _ranks(connection, [row["id"] for row in rows if row["state"] == "pending"])
    for row in rows:
        row["rank"], row["priority"] = ranks.get(row["id"], (None, None))
    return rows


def _ranks(connection: Reader, ids: list[int]) -> Mapping[int, tuple[int, int]]:
    if not ids or not _has_ranking(connection):
        return {}
    if len(ids) > FEW:
        return whole_ranking(connection)
    sql = "SELECT id, rank, priority FROM job_priority WHERE id IN (SELECT value FROM json_each(?))"
    rows = fetch(connection, sql, [_list(ids)])
    return {row["id"]: (row["rank"], row["priority"]) for row in rows if row["rank"] is not None}


def job(connection: Reader, job_id: int, reads_environment_of: str | None = "") -> Row:
    """Everything about one job: as submitted, as resolved, as it went; its breakdown while it is pending.

    Its environment (``env``) only if it is a job of the user ``reads_environment_of``, or if that is None: anybody's.

    Raises:
        Refused: ``unknown_job``.
    """
    rows = fetch(connection, "SELECT * FROM job WHERE id = ?", [job_id])
    if not rows:
        raise Refused("unknown_job", f"there is no job {job_id}", "id", status=404)
    record = rows[0]
    submitted = msgspec.json.decode(record.pop("request"), type=Row)
    if reads_environment_of in (None, record["user"]):
        stored = fetch(connection, "SELECT json_extract(request, '$.env') AS env FROM jobs WHERE id = ?", [job_id])
        submitted["env"] = msgspec.json.decode(stored[0]["env"] or "{}")
    # What was resolved wins over what was asked for; what has no answer yet (stdout) stays as asked.
    merged = submitted | {name: value for name, value in record.items() if value is not None or name not in submitted}
    if record["state"] == "pending":
        merged["priority_breakdown"] = breakdown(connection, job_id)
    return merged


def breakdown(connection: Reader, job_id: int) -> Row | None:
    """A pending job's priority by factor; None before the first pass."""
    rows = priorities(connection, JobFilter(id=job_id))
    return {name: rows[0][name] for name in (*_BREAKDOWN, "factors")} if rows else None


def priorities(connection: Reader, wanted: JobFilter) -> list[Row]:
    """Breakdowns of pending jobs, by rank, those without one last; ``factors`` in summing order."""
    where, parameters = conditions(wanted)
    return _priorities(connection, f"job_priority{where} ORDER BY rank IS NULL, rank, id", [*parameters, wanted.limit])


def priorities_of(connection: Reader, ids: Sequence[int]) -> list[Row]:
    """Breakdowns of these pending jobs, by rank, those without one last."""
    source = "job_priority WHERE id IN (SELECT value FROM json_each(?)) ORDER BY rank IS NULL, rank, id"
    return _priorities(connection, source, [_list(ids), max(len(ids), 1)])


def head(connection: Reader, limit: int) -> list[Row]:
    """The breakdowns of the next jobs, at most 10,000, without looking at all the others."""
    return _priorities(connection, "queue_head ORDER BY rank", [limit])


def _priorities(connection: Reader, source: str, parameters: list[object]) -> list[Row]:
    if not _has_ranking(connection):
        return []
    rows = fetch(connection, f"SELECT * FROM {source} LIMIT ?", parameters)
    by_name = weights(connection)
    for row in rows:
        row["factors"] = [_factor(row, name, weight) for name, weight in by_name.items()]
    return rows


def _factor(row: Row, name: str, weight: float) -> Row:
    """Take the factor's columns out of the row. Where a job's column has its name, it is NAME_factor."""
    value = row.pop(f"{name}_factor") if f"{name}_factor" in row else row.pop(name)
    return {"name": name, "value": value, "weight": weight, "points": row.pop(f"{name}_points")}


def weights(connection: Reader) -> dict[str, float]:
    """The factors of the newest generation in summing order, with their weights; empty before the first."""
    newest = fetch(connection, "SELECT base, weights FROM generation ORDER BY number DESC LIMIT 1")
    if not newest:
        return {}
    sql = "SELECT substr(name, 8) AS name, value FROM generation_numbers WHERE generation = ? AND name LIKE 'weight.%'"
    exact = {row["name"]: row["value"] for row in fetch(connection, sql, [newest[0]["base"]])}
    return {name: exact.get(name, weight) for name, weight in newest[0]["weights"].items()}


def history(connection: Reader, job_id: int) -> list[Row]:
    """What happened to a job, oldest first."""
    columns = "id, job_id, event, state, at, actor, cause, detail"
    return fetch(connection, f"SELECT {columns} FROM job_event WHERE job_id = ? ORDER BY id", [job_id])


NODE_UNHEARD_S = 30.0
"""Agents send a sign of life every ``node.heartbeat_s``, which is 5 s by default."""


def services(connection: Reader) -> Row:
    """``services`` that keep the records, and when each was last alive; ``nodes`` that were silent by then.

    The intake writes down what nodes report: a node's silence counts up to the intake's last sign of life.
    """
    alive = fetch(connection, "SELECT name, holder, started_at, alive_at FROM service ORDER BY name")
    written = [row["alive_at"] for row in alive if row["name"] == "intake"]
    silent = fetch(
        connection,
        "SELECT name, heartbeat_at FROM node WHERE state IN ('up', 'draining') AND heartbeat_at < ? ORDER BY name",
        [written[0] - NODE_UNHEARD_S if written else 0.0],
    )
    return {"services": alive, "nodes": silent}


def nodes(connection: Reader) -> list[Row]:
    """Nodes by partition and name, with ``allocated`` amounts and the number of ``allocations`` on each."""
    rows = fetch(
        connection,
        "SELECT name, partition, state, capacity, labels, agent, registered_at, heartbeat_at, drained_by, drained_at,"
        " drain_reason FROM node ORDER BY partition, name",
    )
    used = _allocated(connection)
    for row in rows:
        row["labels"] = msgspec.json.decode(row["labels"])
        row["allocations"], amounts = used.get(row["name"], (0, {}))
        row["allocated"] = amounts
    return rows


def _allocated(connection: Reader) -> dict[str, tuple[int, dict[str, float]]]:
    """Of each node: how many open allocations, and how much. In one pass: the view's take one each."""
    sql = "SELECT nodes, resources AS amounts FROM allocation WHERE ended_at IS NULL"
    used: dict[str, tuple[int, dict[str, float]]] = {}
    for row in fetch(connection, sql):
        amounts = msgspec.json.decode(row["amounts"], type=dict[str, float])
        for node in msgspec.json.decode(row["nodes"], type=list[str]):
            number, total = used.get(node, (0, {}))
            used[node] = (number + 1, {k: total.get(k, 0) + amounts.get(k, 0) for k in total | amounts})
    return used


def queues(connection: Reader) -> list[Row]:
    """The live queues by partition and path.

    ``place`` is the one among the siblings with pending jobs (None without), ``ahead_by`` the key that puts the
    queue before the next of them: ``priority``, ``share``, ``pending`` or ``name``.
    """
    rows = fetch(connection, "SELECT * FROM queue_priority ORDER BY partition, path")
    placed = _places(rows, _totals(connection))
    nowhere: tuple[int | None, str | None] = (None, None)
    for row in rows:
        row["place"], row["ahead_by"] = placed.get((row["partition"], row["path"]), nowhere)
    return rows


def _places(
    rows: Sequence[Row], totals: Mapping[str, Resources]
) -> dict[tuple[str, str], tuple[int | None, str | None]]:
    siblings: dict[tuple[str, str], list[Sibling]] = {}
    for row in rows:
        if row["priority"] is not None and "." in row["path"]:
            shown = (row["path"], row["priority"], row["share"], _internal(row["pending"]))
            siblings.setdefault((row["partition"], row["path"].rpartition(".")[0]), []).append(
                Sibling(path=shown[0], priority=shown[1], share=shown[2], pending=shown[3])
            )
    by_priority = {(row["partition"], row["path"]): row["sort_priority"] == "enabled" for row in rows}
    placed: dict[tuple[str, str], tuple[int | None, str | None]] = {}
    for (partition, parent), found in siblings.items():
        counts = by_priority.get((partition, parent), True)
        for place, (path, key) in enumerate(ordered(found, totals.get(partition, {}), by_priority=counts), start=1):
            placed[partition, path] = (place, key)
    return placed


def _totals(connection: Reader) -> dict[str, Resources]:
    """What the nodes of each partition have together, of those that count."""
    totals: dict[str, Resources] = {}
    for row in fetch(connection, "SELECT partition, capacity FROM node WHERE state IN ('up', 'draining')"):
        total = totals.setdefault(row["partition"], {})
        for kind, amount in _internal(row["capacity"]).items():
            total[kind] = total.get(kind, 0) + amount
    return totals


def _internal(amounts: Mapping[str, float]) -> Resources:
    """Amounts as the ranking has them."""
    return {kind: round(amount * 1000) if kind == VCORE else int(amount) for kind, amount in amounts.items()}


def shares(connection: Reader) -> list[Row]:
    """The accounts (``user`` None) and their users; ``parent`` names the account above.

    An infinite ``level_fairshare`` is the text ``inf``: JSON has no number for it.
    """
    rows = fetch(connection, 'SELECT * FROM association_share ORDER BY account, "user" IS NOT NULL, "user"')
    for row in rows:
        if row["level_fairshare"] == math.inf:
            row["level_fairshare"] = "inf"
    return rows


def classes(connection: Reader) -> list[Row]:
    """The priority classes by name, the built-ins among them."""
    return fetch(connection, "SELECT * FROM priority_class ORDER BY name")


def count_running(connection: sqlite3.Connection, agents: Sequence[str]) -> int:
    """How many jobs run on the nodes of these agents."""
    query = (
        "SELECT count(DISTINCT l.job_id) FROM allocations l CROSS JOIN allocation_nodes p ON p.allocation_id = l.id"
        " JOIN nodes n ON n.name = p.node WHERE l.ended_at IS NULL AND p.started_at IS NOT NULL AND p.ended_at IS NULL"
        " AND n.agent IN (SELECT value FROM json_each(?))"
    )
    return int(connection.execute(query, (msgspec.json.encode(list(agents)).decode(),)).fetchone()[0])
