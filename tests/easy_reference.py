"""EASY and conservative backfilling as the textbooks have them: one pool of processors, one queue, lists.

It shares nothing with rankd, and knows no priorities, queues, quotas or nodes.
"""

import heapq
import math
from bisect import insort
from itertools import groupby


def easy(jobs, processors, *, shortest=False, strict=False):
    """The start of each of ``jobs``: tuples (submission, run time, processors, limit), first come, first served."""
    order = sorted(range(len(jobs)), key=lambda job: (jobs[job][0], job))
    starts, ends, queue, free = [math.nan] * len(jobs), [], [], processors
    while order or ends:
        now = min(jobs[order[0]][0] if order else math.inf, ends[0][0] if ends else math.inf)
        while ends and ends[0][0] == now:
            free += jobs[heapq.heappop(ends)[1]][2]
        while order and jobs[order[0]][0] == now:
            queue.append(order.pop(0))

        def start(job, now=now):
            starts[job] = now
            heapq.heappush(ends, (now + jobs[job][1], job))
            queue.remove(job)
            return jobs[job][2]

        while queue and jobs[queue[0]][2] <= free:
            free -= start(queue[0])
        if not queue or strict:
            continue
        shadow, spare = reservation(jobs, [(starts[job] + jobs[job][3], job) for _, job in ends], queue[0], free)
        rest = queue[1:]
        if shortest:
            rest.sort(key=lambda job: (jobs[job][3], jobs[job][0], job))
        for job in rest:
            _, _, size, limit = jobs[job]
            if size <= free and (now + limit <= shadow or size <= spare):
                spare -= size if now + limit > shadow else 0
                free -= start(job)
    return starts


def reservation(jobs, expected, head, free):
    """When the job at the head can start at the latest, and what is left over then."""
    shadow = None
    for end, job in sorted(expected):
        if shadow is not None and end > shadow:
            break
        free += jobs[job][2]
        if shadow is None and free >= jobs[head][2]:
            shadow = end
    return shadow, free - jobs[head][2]


def conservative(jobs, processors):
    """The start of each job, if every job that can't start has a reservation, and all are made anew at each event.

    Source: Mu'alem and Feitelson, Utilization, predictability, workloads, and user runtime estimates in scheduling the
    IBM SP2 with backfilling, IEEE TPDS 12(6), 2001.
    """
    order = sorted(range(len(jobs)), key=lambda job: (jobs[job][0], job))
    starts, ends, queue = [math.nan] * len(jobs), [], []
    while order or ends:
        now = min(jobs[order[0]][0] if order else math.inf, ends[0][0] if ends else math.inf)
        while ends and ends[0][0] == now:
            heapq.heappop(ends)
        while order and jobs[order[0]][0] == now:
            queue.append(order.pop(0))
        used = sum(jobs[job][2] for _, job in ends)
        changes = sorted((starts[job] + jobs[job][3], -jobs[job][2]) for _, job in ends)
        for job in list(queue):
            _, run, size, limit = jobs[job]
            at = earliest(used, changes, processors - size, limit, now)
            insort(changes, (at, size))
            insort(changes, (at + limit, -size))
            if at == now:
                starts[job] = now
                heapq.heappush(ends, (now + run, job))
                queue.remove(job)
    return starts


def earliest(used, changes, room, limit, now):
    """The first instant from which on no more than ``room`` is used for ``limit`` seconds."""
    since = now if used <= room else None
    for at, own in groupby(changes, key=lambda change: change[0]):
        if since is not None and at >= since + limit:
            return since
        used += sum(size for _, size in own)
        if used > room:
            since = None
        elif since is None:
            since = at
    return since


def mean_bounded_slowdown(jobs, starts):
    slowdowns = [max(1.0, (s - j[0] + j[1]) / max(j[1], 10.0)) for s, j in zip(starts, jobs, strict=True)]
    return sum(slowdowns) / len(slowdowns)
