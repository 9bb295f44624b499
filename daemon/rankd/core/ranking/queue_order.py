"""The order inside each parent queue at the snapshot; see "Order inside a parent" in queues.md.

The ranking itself goes further: it follows the priorities of the children while their jobs are taken one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankd.core.model.quantity import Resources
from rankd.core.ranking.queue_key import pending_weight, sort_key
from rankd.core.ranking.queue_view import QueueView
from rankd.core.ranking.ranking import QueueRow


def has_work(row: QueueRow) -> bool:
    """Whether anything is pending in the queue: jobs, or an amount that was given without jobs."""
    return row.priority is not None or any(row.pending.values())


def queue_order(
    views: Sequence[QueueView], rows: Mapping[int, QueueRow], total: Resources
) -> dict[int, tuple[QueueView, ...]]:
    """For each parent with work: its children with work, the first to be served first.

    The order is by priority (if it counts in the parent), fair share, pending, name.
    """
    children: dict[int, list[QueueView]] = {}
    for view in views:
        if view.parent is not None and has_work(rows[view.id]):
            children.setdefault(view.parent, []).append(view)
    by_priority = {view.id: view.properties.sort_priority for view in views}

    def key(view: QueueView) -> tuple[float, float, float, str]:
        row = rows[view.id]
        weight, above = pending_weight(row.pending, total), view.parent
        return sort_key(row.priority, row.share, weight, view.path, by_priority=above is None or by_priority[above])

    return {parent: tuple(sorted(found, key=key)) for parent, found in children.items()}
