"""The views of devices: those of nodes, and those that jobs have or had."""

from __future__ import annotations

from rankd.store.engine.word import VALUES, WITH_EACH, elements, number_at, text_at

DEVICE = f"""CREATE VIEW device AS
SELECT n.name AS node, {number_at("e.value", "$.index")} AS "index", {text_at("e.value", "$.id")} AS id,
    coalesce({text_at("e.value", "$.type")}, 'gpu') AS type, {text_at("e.value", "$.model")} AS model,
    coalesce({number_at("e.value", "$.group")}, 0) AS "group", nullif({number_at("e.value", "$.memory")}, 0) AS memory,
    coalesce({text_at("e.value", "$.state")}, 'ok') AS state, l.job_id AS job, j."user",
    l.allocated_at AS since, t.taken_by,
    coalesce(t.fault, t.reason, o.reason, nullif({text_at("e.value", "$.blocked")}, '')) AS reason, o.drained_by
FROM nodes n {WITH_EACH} {elements("n.devices", "e", VALUES)}
LEFT JOIN allocation_devices d ON d.node = n.name AND d.device = {text_at("e.value", "$.id")} AND d.held = 1
LEFT JOIN allocations l ON l.id = d.allocation_id
LEFT JOIN jobs j ON j.id = l.job_id
LEFT JOIN device_notes t ON t.node = n.name AND t.device = {text_at("e.value", "$.id")}
LEFT JOIN device_orders o ON o.node = n.name AND o.device = {text_at("e.value", "$.id")}
UNION ALL
SELECT d.node, d.position, d.device, 'gpu', d.model, 0, NULL, 'gone', l.job_id, j."user", l.allocated_at, NULL, NULL,
    NULL
FROM allocation_devices d JOIN allocations l ON l.id = d.allocation_id JOIN jobs j ON j.id = l.job_id
WHERE d.held = 1 AND NOT EXISTS (
    SELECT 1 FROM nodes n {WITH_EACH} {elements("n.devices", "e", VALUES)}
    WHERE n.name = d.node AND {text_at("e.value", "$.id")} = d.device)"""

JOB_DEVICE = """CREATE VIEW job_device AS
SELECT l.job_id AS job, d.allocation_id AS allocation, d.node, d.device AS id, d.position AS "index", d.model,
    u.busy / nullif(u.samples, 0) AS mean_utilisation, u.recent AS recent_utilisation, u.peak_bytes AS peak_memory,
    u.idle_s, u.at AS measured_at
FROM allocation_devices d JOIN allocations l ON l.id = d.allocation_id
LEFT JOIN device_uses u ON u.allocation_id = d.allocation_id AND u.node = d.node AND u.device = d.device"""
