"""When a simulation may leave out a cycle, because it would start nothing.

After a cycle, time passes and jobs are submitted, but none ends. Then the jobs that this cycle left waiting go on
waiting, on one node:

- The node has no more free than at the end of that cycle. So a job that lacked room still does.
- Each job with a reservation gets the same one. At its instant there is still room for it, because no start was allowed
  to delay it. And there was none before, when more was free.
- A job that would have delayed a reservation still would. The reservation is nearer now, and no more is free.

So only new jobs can start, and only if the node has room for one of them. A new job can change the reservations of
others only if it comes before them. With ``strict``, it can't even start while another job waits.

The same holds after jobs end when they were expected to, unless one of those that wait has room only now. What is free
at each later instant is what the last cycle took it to be. So reservations stay the same, and a job that had room
before would still delay one. If a job ends earlier than expected, reservations move, and there is a cycle. So there is
with exclusive jobs, which need the node to be empty.

With several nodes this is not certain: a start may change which of them are reserved. Nor is it with several leaves or
with quotas, where a start changes which job is next. Then no cycle is left out for this reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from rankd.core.model.quantity import VCORE
from rankd.core.simulate.part import Part
from rankd.core.simulate.population import Population


def can_stand_still(work: Population, parts: Sequence[Part]) -> bool:
    """Whether this holds for the partitions and all jobs of a trace, if the jobs' order does not change with time.

    The scheduler must expect jobs to end at their limits or when they do.
    """
    if [(len(part.nodes.nodes), part.nodes.types) for part in parts] != [(1, [VCORE])]:
        return False
    if (work.runs_s > work.limits_s).any():
        return False
    is_limited = any(view.maximum or view.limits or view.maxapplications for view in parts[0].views)
    queues = work.columns.queues
    return not is_limited and bool((queues == queues[:1]).all())
