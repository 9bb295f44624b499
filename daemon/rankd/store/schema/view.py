"""The views that users query. Singular names, stable columns; docs/reference/database.md lists them.

The fixed views are replaced by every `rankd db upgrade`. Views with a column per factor depend on the configuration:
:func:`factor_views` makes them for the factors of a generation. They are replaced in the transaction that makes the
first generation of a new configuration visible.

The view and the ranking do the same float64 operations in the same order. Weights and parameters are bound numbers of
the generation, never literals, because SQLite reads some literals one bit off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from rankd.core.model.wait_part import COLUMNS as WAITED
from rankd.core.ranking.factor import Per
from rankd.store.engine import word
from rankd.store.engine.word import JOIN_IN_ORDER, TEXTS, WITH_EACH, elements, in_cores, text_at
from rankd.store.schema.device_view import DEVICE, JOB_DEVICE
from rankd.store.schema.forecast_view import START_ESTIMATE, START_RANGE
from rankd.store.schema.rank_view import NEWEST_BASE, NEWEST_NUMBER, RANKING, rank_of
from rankd.store.schema.reason_view import REASON, REASON_FACT, REASON_JOINS
from rankd.store.schema.step_view import JOB_STEP
from rankd.store.schema.whole_view import ON_NODE, whole

_SETTLED = "coalesce(j.settled, j.revision)"
"""The last event that may have changed the rank: an array keeps its rank when tasks leave it."""

JOB_COLUMNS = frozenset(
    [
        "id",
        "user",
        "account",
        "queue",
        "qos",
        "partition",
        "name",
        "class_value",
        "points_sum",
        "priority",
        "override",
        "override_by",
        "rank",
        "generation",
        "ranked_at",
        "reason",
        "submitted_at",
        "eligible_at",
    ]
)
"""Columns of ``job_priority`` that a factor's name must not hide. A factor with such a name gets NAME_factor."""


_THOUSAND = "CAST(1000 AS DOUBLE PRECISION)"
"""A divisor whose quotient is a float64 in every database."""

_WAITED = ",\n    ".join(f"CASE WHEN j.waited_s IS NOT NULL THEN j.{name} END AS {name}" for name in WAITED.values())
"""What the job waited for, once that is known."""

_JOB = f"""CREATE VIEW job AS
SELECT j.id, j."user", a.account, q.path AS queue, q.partition, s.name AS qos, p.name AS application, j.name,
    j.state, {REASON} AS reason,
    {REASON_FACT} AS reason_fact, r.starts_at AS expected_start_at, r.nodes AS reserved_nodes,
    j.held, j.held_by, j.class_value, j.priority_class, j.preemption_policy, j.urgency, j.fixed_priority, j.fixed_by,
    j.nodes, j.min_nodes, j.nodes * j.vcore / {_THOUSAND} AS cores,
    {in_cores("j.resources")} AS resources, j.constraints, j.exclusive,
    j.time_limit_s, j.begin_at, j.depends_on, j.requeue, j.requeues, j.submitted_at, j.eligible_at,
    j.started_at, j.ended_at, j.exit_status, j.signal, j.allocation_id, j.nodelist,
    o.stdout, o.stderr,
    (SELECT max(p.max_rss_bytes) FROM allocation_nodes p WHERE p.allocation_id = j.allocation_id) AS max_rss_bytes,
    (SELECT sum(p.cpu_s) FROM allocation_nodes p WHERE p.allocation_id = j.allocation_id) AS cpu_s,
    (SELECT CASE WHEN count(DISTINCT p.measured) > 1 THEN 'mixed' ELSE max(p.measured) END FROM allocation_nodes p
     WHERE p.allocation_id = j.allocation_id) AS measured,
    (SELECT p.message FROM allocation_nodes p WHERE p.allocation_id = j.allocation_id AND p.message IS NOT NULL
     ORDER BY p.ended_at, p.node LIMIT 1) AS message, j."key", j.comment,
    {word.without("coalesce(t.request, j.request)", "env")} AS request,
    j."array", j.array_limit, j.array_job, j.array_task, j.retry_of, j.cancel_if_unmet,
    CASE WHEN j."array" IS NOT NULL THEN i.eligible END AS array_eligible,
    CASE WHEN j."array" IS NOT NULL THEN i.unmet END AS array_unmet,
    CASE WHEN j.exclusive = 1 THEN {whole("j.allocation_id")} END AS allocated,
    {_WAITED}
FROM jobs j
LEFT JOIN arrays i ON i.job_id = j.id AND i.n_eligible IS NOT NULL
LEFT JOIN array_requests t ON t.id = j.request_id
JOIN associations a ON a.id = j.association_id
JOIN queues q ON q.id = j.queue_id
JOIN qos s ON s.id = j.qos_id
LEFT JOIN applications p ON p.id = j.application_id
{REASON_JOINS}
LEFT JOIN reservations r ON r.job_id = j.id AND j.state = 'pending'
LEFT JOIN allocation_nodes o ON o.allocation_id = j.allocation_id
    AND o.node = (SELECT {text_at("l.nodes", "$[0]")} FROM allocations l WHERE l.id = j.allocation_id)"""

_JOB_EVENT = """CREATE VIEW job_event AS
SELECT e.id, e.job_id, j."user", e.event, e.state, e.at, e.actor, e.cause, e.detail
FROM job_events e JOIN jobs j ON j.id = e.job_id"""

_ALLOCATION = f"""CREATE VIEW allocation AS
SELECT l.id, l.job_id, j."user", l.nodes, {in_cores("l.resources")} AS resources,
    l.cycle, l.generation, l.rank, l.charge_rate, l.allocated_at, l.started_at, l.ended_at, l.devices,
    CASE WHEN j.exclusive = 1 THEN {whole("l.id")} END AS allocated
FROM allocations l JOIN jobs j ON j.id = l.job_id"""

_NODE = f"""CREATE VIEW node AS
SELECT n.name, n.partition, n.state, {in_cores("n.capacity")} AS capacity, n.labels,
    n.agent, n.registered_at, n.heartbeat_at, n.drained_by, n.drained_at, n.drain_reason, n.confinement,
    (SELECT count(*) FROM allocations l, {elements("l.nodes", "e", TEXTS)}
     WHERE l.ended_at IS NULL AND e.value = n.name) AS allocations,
    (SELECT {word.sums_as_object("k", "total")} FROM (
        SELECT r.key AS k, CASE r.key WHEN 'vcore' THEN sum(r.value) / 1000.0 ELSE sum(r.value) END AS total
        FROM allocations l JOIN allocation_nodes p ON p.allocation_id = l.id AND p.node = n.name
        {WITH_EACH} {word.members(ON_NODE, "r")} WHERE l.ended_at IS NULL GROUP BY r.key) s) AS allocated
FROM nodes n"""

_NODE_EVENT = """CREATE VIEW node_event AS
SELECT id, node, event, at, actor, reason FROM node_events"""

_PRIORITY_CLASS = """CREATE VIEW priority_class AS
SELECT name, value, global_default, description, preemption_policy, access FROM priority_classes"""

_DEAD_LETTER = """CREATE VIEW dead_letter AS
SELECT id, "user", at, message_id, code, message, field, preview AS submission, state,
    jobs, decided_by, decided_at, bytes, kind
FROM dead_letters"""

_USAGE_DAY = """CREATE VIEW usage_day AS
SELECT day, account, "user", jobs, completed, core_s, charge, gpu_s FROM usage_days"""

_UNREADABLE_MESSAGE = f"""CREATE VIEW unreadable_message AS
SELECT id, at, stream, subject, sequence, bytes, {word.in_hex("first_bytes")} AS first_bytes, reason
FROM unreadable_messages"""

_SERVICE = """CREATE VIEW service AS
SELECT name, holder, since AS started_at, coalesce(alive_at, since) AS alive_at, epoch, ttl_s, resigned_at,
    ready_at - vacant_at AS takeover_s
FROM roles"""

_ADAPTER = """CREATE VIEW adapter AS
SELECT name, input, plugin, state, row_count AS rows, read_at, changed_at, tried_at, failures, message
FROM adapters"""

_GENERATION = """CREATE VIEW generation AS
SELECT number, kind, ranked_at, policy, revision, jobs, new_jobs, weights, durations, failures, base, made_at,
    configuration
FROM generations"""

_CONFIGURATION = """CREATE VIEW configuration AS
SELECT id AS number, at, actor, event, directory, changes, files
FROM configurations"""

_QUEUE_PRIORITY = f"""CREATE VIEW queue_priority AS
WITH running AS MATERIALIZED (
    SELECT l.partition, l.path, count(DISTINCT coalesce(-j.application_id, j.id)) AS applications
    FROM allocations a JOIN jobs j ON j.id = a.job_id JOIN queues l ON l.id = j.queue_id
    WHERE a.ended_at IS NULL AND l.configured = 1 GROUP BY l.id)
SELECT q.path, q.partition, q.policy, q.offset,
    CASE WHEN q.sort_priority = 1 THEN 'enabled' ELSE 'disabled' END AS sort_priority, q.sort_policy,
    v.priority, coalesce(v.share, 0.0) AS share, coalesce(v.pending_jobs, 0) AS pending_jobs,
    coalesce(v.pending, '{{}}') AS pending, coalesce(v.allocated, '{{}}') AS allocated,
    {in_cores("q.max")} AS max, {in_cores("q.guaranteed")} AS guaranteed,
    q.is_leaf, q.maxapplications, q.dynamic,
    (SELECT CAST(coalesce(sum(r.applications), 0) AS BIGINT) FROM running r WHERE r.partition = q.partition
        AND (r.path = q.path OR substr(r.path, 1, length(q.path) + 1) = q.path || '.')) AS applications,
    CASE WHEN v.generation IS NOT NULL THEN {NEWEST_NUMBER} END AS generation
FROM queues q
LEFT JOIN generation_queues v
    ON v.queue_id = q.id AND v.generation = {NEWEST_BASE}
WHERE q.configured = 1"""

_ASSOCIATION_SHARE = f"""CREATE VIEW association_share AS
SELECT a.account, nullif(a."user", '') AS "user", a.parent,
    CASE WHEN a.shares_parent = 1 THEN 'parent' ELSE {word.number_or_text("a.shares")} END AS shares, a.is_default,
    v.shares_norm, coalesce(v.usage, 0.0) AS usage, v.usage_effective, v.level_fairshare, v.fairshare,
    CASE WHEN v.generation IS NOT NULL THEN {NEWEST_NUMBER} END AS generation
FROM associations a
LEFT JOIN generation_associations v
    ON v.association_id = a.id AND v.generation = {NEWEST_BASE}"""


def fixed_views() -> dict[str, str]:
    """The views that do not depend on the configuration, by name."""
    return {
        "job": _JOB,
        "job_event": _JOB_EVENT,
        "allocation": _ALLOCATION,
        "device": DEVICE,
        "job_device": JOB_DEVICE,
        "job_step": JOB_STEP,
        "node": _NODE,
        "node_event": _NODE_EVENT,
        "priority_class": _PRIORITY_CLASS,
        "dead_letter": _DEAD_LETTER,
        "unreadable_message": _UNREADABLE_MESSAGE,
        "usage_day": _USAGE_DAY,
        "service": _SERVICE,
        "adapter": _ADAPTER,
        "generation": _GENERATION,
        "configuration": _CONFIGURATION,
        "queue_priority": _QUEUE_PRIORITY,
        "association_share": _ASSOCIATION_SHARE,
        "start_range": START_RANGE,
        "start_estimate": START_ESTIMATE,
        "ranking": RANKING,
    }


class FactorColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A factor as the views need it: how its value is computed, and the names of its parameters."""

    name: str
    per: Per
    sql: str | None
    parameters: tuple[str, ...] = ()

    @property
    def value_column(self) -> str:
        """The column of the raw value in ``job_priority``."""
        return f"{self.name}_factor" if self.name in JOB_COLUMNS else self.name


_KEYS = {Per.ASSOCIATION: "j.association_id", Per.QOS: "j.qos_id", Per.QUEUE: "j.queue_id", Per.JOB: "j.id"}

_SQL_NAMES = {
    "ranked_at": "g.ranked_at",
    "submitted_at": "j.submitted_at",
    "eligible_at": "j.eligible_at",
    "urgency": "CAST(j.urgency AS DOUBLE PRECISION)",
    "nodes": "CAST(j.nodes AS DOUBLE PRECISION)",
    "cores": "(CAST(j.nodes AS DOUBLE PRECISION) * j.vcore / 1000.0)",
    "time_limit_s": "j.time_limit_s",
    "partition_nodes": "t.nodes",
    "partition_cores": "t.cores",
}


def factor_views(factors: Sequence[FactorColumn]) -> dict[str, str]:
    """``job_priority``, ``queue_head`` and ``job_factor`` for these factors, in summing order."""
    return {
        "job_priority": f"CREATE VIEW job_priority AS {_breakdown(factors, _ALL)}",
        "queue_head": f"CREATE VIEW queue_head AS {_breakdown(factors, _HEAD)}",
        "job_factor": f"CREATE VIEW job_factor AS {_long(factors)}",
    }


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _number(name: str) -> str:
    return f"(SELECT value FROM generation_numbers WHERE generation = n.base AND name = {_text(name)})"


def _generation(factors: Sequence[FactorColumn]) -> str:
    """The newest generation as one row, with its weights (w0, w1, …) and parameters (p0_0, …)."""
    numbers = []
    for place, factor in enumerate(factors):
        numbers.append(f"{_number('weight.' + factor.name)} AS w{place}")
        numbers += [
            f"{_number(factor.name + '.' + parameter)} AS p{place}_{at}"
            for at, parameter in enumerate(factor.parameters)
        ]
    columns = ", ".join(["n.number", "n.base", "n.ranked_at", "n.policy", "n.revision", *numbers])
    return f"(SELECT {columns} FROM generations n ORDER BY n.number DESC LIMIT 1) g"


def _value(place: int, factor: FactorColumn) -> str:
    if factor.sql is None:
        return f"coalesce(v{place}.value, 0.0)"
    names = _SQL_NAMES | {name: f"g.p{place}_{at}" for at, name in enumerate(factor.parameters)}
    return word.formula(factor.sql.format_map(names))


def _joins(factors: Sequence[FactorColumn]) -> str:
    return "\n".join(
        f"LEFT JOIN generation_values v{place} ON v{place}.generation = g.base"
        f" AND v{place}.factor = {_text(factor.name)} AND v{place}.key = {_KEYS[factor.per]}"
        for place, factor in enumerate(factors)
        if factor.sql is None
    )


class _Source(NamedTuple):
    """The jobs of a breakdown: the tables to read, with ``{}`` for the generation ``g``, and the jobs as ``j``.

    ``place`` is a column of these tables, and ``rank`` an expression of it.
    """

    jobs: str
    place: str
    rank: str


_ALL = _Source(
    f"{{}} {JOIN_IN_ORDER} jobs j ON 1 = 1",
    "CAST(NULL AS INTEGER)",
    f"CASE WHEN fresh AND eligible_at IS NOT NULL THEN {rank_of('o.id', 'o.base')} END",
)
_HEAD = _Source(
    f"ranking_head h {JOIN_IN_ORDER} {{}} ON 1 = 1"
    f" {JOIN_IN_ORDER} jobs j ON j.id = h.job_id AND {_SETTLED} <= g.revision",
    "h.rank",
    "place",
)
"""The head is read first, otherwise SQLite sorts all of it for ``ORDER BY rank LIMIT 100``."""


_BY_ID = word.larger("2147483648 - id", "-2147483648")
_BY_POINTS = word.larger("-2147483648", word.smaller("2147483647", f"class_value + {word.whole('points_sum')}"))


def _breakdown(factors: Sequence[FactorColumn], source: _Source) -> str:
    """Three layers, because SQL can't use a column in its own row: values, points, sum and priority."""
    values = ", ".join(
        f"CASE WHEN {_SETTLED} <= g.revision THEN {_value(place, factor)} END AS f{place}, g.w{place} AS w{place}"
        for place, factor in enumerate(factors)
    )
    points = ", ".join(f"f{place} * w{place} AS s{place}" for place in range(len(factors)))
    total = " + ".join(f"s{place}" for place in range(len(factors))) or "0.0"
    shown = ", ".join(
        f"f{place} AS {_quoted(factor.value_column)}, s{place} AS {_quoted(factor.name + '_points')}"
        for place, factor in enumerate(factors)
    )
    return f"""
SELECT id, "user", account, queue, qos, partition, name, {shown or "NULL AS no_factor"}, class_value, points_sum,
    CASE override
        WHEN 'initial' THEN {_BY_ID}
        WHEN 'expedited' THEN 2147483647
        WHEN 'fixed' THEN fixed_priority
        WHEN 'class' THEN class_value
        WHEN 'fcfs' THEN {_BY_ID}
        ELSE {_BY_POINTS} END AS priority,
    override, CASE WHEN override = 'fixed' THEN fixed_by END AS override_by,
    {source.rank} AS rank,
    number AS generation, ranked_at, reason, submitted_at, eligible_at
FROM (SELECT *, {total} AS points_sum FROM (SELECT *, {points or "NULL AS no_points"} FROM (
    SELECT j.id, j."user", a.account, q.path AS queue, s.name AS qos, q.partition, j.name, j.class_value,
        j.fixed_priority, j.fixed_by, j.submitted_at, j.eligible_at, {REASON} AS reason,
        g.number, g.base, g.ranked_at, {_SETTLED} <= g.revision AS fresh, {source.place} AS place,
        CASE WHEN {_SETTLED} > g.revision THEN 'initial'
            WHEN j.urgency = 31 THEN 'expedited'
            WHEN j.fixed_priority IS NOT NULL THEN 'fixed'
            WHEN g.policy <> 'multifactor' THEN g.policy END AS override{", " + values if values else ""}
    FROM {source.jobs.format(_generation(factors))}
    JOIN associations a ON a.id = j.association_id
    JOIN queues q ON q.id = j.queue_id
    JOIN qos s ON s.id = j.qos_id
    LEFT JOIN generation_partitions t ON t.generation = g.base AND t.partition = q.partition
    {REASON_JOINS}
    {_joins(factors)}
    WHERE j.state = 'pending') a) b) o"""


def _long(factors: Sequence[FactorColumn]) -> str:
    """One row per job and factor."""
    rows = [
        f"SELECT id AS job_id, {_text(factor.name)} AS factor, {_quoted(factor.value_column)} AS value,"
        f" {_newest_number('weight.' + factor.name)} AS weight,"
        f" {_quoted(factor.name + '_points')} AS points, generation FROM job_priority"
        for factor in factors
    ]
    empty = "SELECT NULL AS job_id, NULL AS factor, NULL AS value, NULL AS weight, NULL AS points, NULL AS generation"
    return "\nUNION ALL ".join(rows) or f"{empty} WHERE 1 = 0"


def _newest_number(name: str) -> str:
    return f"(SELECT value FROM generation_numbers WHERE generation = {NEWEST_BASE} AND name = {_text(name)})"
