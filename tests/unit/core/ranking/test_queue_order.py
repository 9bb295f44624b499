"""The order inside each parent."""

from builder import views

from rankd.core.ranking.queue_order import has_work, queue_order
from rankd.core.ranking.ranking import QueueRow

QUEUES = views(("root", {}), ("root.b", {}), ("root.a", {}), ("root.c", {}))
TOTAL = {"vcore": 10}


def row(id, priority, share=0.0, pending=0):
    amounts = {"vcore": pending} if pending else {}
    return QueueRow(id=id, priority=priority, share=share, used={}, pending=amounts, pending_jobs=0)


def order(*rows, queues=QUEUES):
    found = queue_order(queues, {own.id: own for own in [row(0, 5), *rows]}, TOTAL)
    return [view.path for view in found.get(0, ())]


def test_priority_decides_then_share_then_pending_then_the_name():
    assert order(row(1, 1), row(2, 2), row(3, 0)) == ["root.a", "root.b", "root.c"]
    assert order(row(1, 1, 0.5), row(2, 1, 0.2), row(3, 1, 0.1)) == ["root.c", "root.a", "root.b"]
    assert order(row(1, 1, 0.5, 9), row(2, 1, 0.5, 3), row(3, 1, 0.5, 5)) == ["root.b", "root.c", "root.a"]
    assert order(row(1, 1), row(2, 1), row(3, 1)) == ["root.a", "root.b", "root.c"]


def test_a_queue_without_work_is_left_out():
    assert order(row(1, None), row(2, 1), row(3, None, pending=4)) == ["root.a", "root.c"]
    assert not has_work(row(1, None))


def test_where_priority_is_disabled_it_does_not_count():
    queues = views(("root", {"sort_priority": False}), ("root.b", {}), ("root.a", {}), ("root.c", {}))
    assert order(row(1, 9, 0.3), row(2, 1, 0.2), row(3, 5, 0.1), queues=queues) == ["root.c", "root.a", "root.b"]
