"""All tables, by name. The modules in this package declare them, one per subject.

Alembic's revisions in migrations/ create them, and a test compares both. Times are UTC seconds (float). Amounts are
internal: vcore in thousandths, memory in bytes. JSON is stored as text.
"""

from __future__ import annotations

from rankd.store.schema.allocation_table import (
    allocation_devices,
    allocation_nodes,
    allocation_orders,
    allocations,
    node_events,
    nodes,
    reason_spells,
    reservations,
    wait_reasons,
)
from rankd.store.schema.catalog_table import associations, priority_classes, qos, queue_events, queues
from rankd.store.schema.device_table import device_notes, device_orders, device_uses
from rankd.store.schema.forecast_table import forecasts, start_estimates, start_ranges
from rankd.store.schema.job_table import (
    applications,
    array_requests,
    arrays,
    job_events,
    job_scripts,
    job_waits,
    jobs,
    old_keys,
    usage_days,
)
from rankd.store.schema.letter_table import dead_letter_losses, dead_letters, unreadable_messages
from rankd.store.schema.metadata import metadata
from rankd.store.schema.notification_table import job_notifications, notifications
from rankd.store.schema.service_table import adapters, configurations, relay_marks, roles, user_groups, versions
from rankd.store.schema.step_table import job_steps

__all__ = [
    "adapters",
    "allocation_devices",
    "allocation_nodes",
    "allocation_orders",
    "allocations",
    "applications",
    "array_requests",
    "arrays",
    "associations",
    "configurations",
    "dead_letter_losses",
    "dead_letters",
    "device_notes",
    "device_orders",
    "device_uses",
    "forecasts",
    "job_events",
    "job_notifications",
    "job_scripts",
    "job_steps",
    "job_waits",
    "jobs",
    "metadata",
    "node_events",
    "nodes",
    "notifications",
    "old_keys",
    "priority_classes",
    "qos",
    "queue_events",
    "queues",
    "reason_spells",
    "relay_marks",
    "reservations",
    "roles",
    "start_estimates",
    "start_ranges",
    "unreadable_messages",
    "usage_days",
    "user_groups",
    "versions",
    "wait_reasons",
]
