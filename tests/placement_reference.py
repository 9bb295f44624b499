"""A scheduling cycle, written down slowly: one job after another, every number computed anew from lists.

Straight from the specification, sharing nothing with the core but the records that go in and out. What a node has
free at an instant is asked of a list of everything that is ever on it; which job is next, of all jobs.
"""

import math

from rankd.core.model.node import NodeState
from rankd.core.placement.constraint import parse_constraints, satisfied

POLICIES = {"fair": 1, "binpacking": -1}


class Item:
    """Something on a node: until it begins and from its end on, it is not there."""

    def __init__(self, resources, exclusive, begin, end, promised_to=None):
        self.resources = resources
        self.exclusive = exclusive
        self.begin = begin
        self.end = end
        self.promised_to = promised_to

    def is_there(self, at):
        return self.begin <= at < self.end


class ReferenceNode:
    def __init__(self, node, holds, now):
        self.node = node
        self.running = [Item(h.resources, h.exclusive, -math.inf, max(h.ends_at, now)) for h in holds]
        known = {kind: sum(h.resources.get(kind, 0) for h in holds) for kind in node.used}
        rest = {kind: amount - known[kind] for kind, amount in node.used.items() if amount > known[kind]}
        self.planned = [Item(rest, exclusive=False, begin=-math.inf, end=math.inf)] if rest else []
        self.started = []

    def room(self, shape, items):
        """Whether the shape has room beside these."""
        if shape.exclusive and items:
            return False
        if any(item.exclusive for item in items):
            return False
        capacity = self.node.capacity
        return all(
            amount + sum(item.resources.get(kind, 0) for item in items) <= capacity.get(kind, 0)
            for kind, amount in shape.resources.items()
        )

    def could_hold(self, shape):
        return (
            self.node.state is NodeState.UP
            and satisfied(parse_constraints(shape.constraints), self.node.labels, self.node.name)
            and self.room(shape, [])
        )

    def free_now(self, shape):
        """What runs is there, also if it should have ended; what is promised is not."""
        return self.could_hold(shape) and self.room(
            shape, [*self.running, *self.started, *(i for i in self.planned if i.promised_to is None)]
        )

    def items(self):
        return [*self.running, *self.started, *self.planned]

    def instants(self, now):
        return sorted({now, *(t for i in self.items() for t in (i.begin, i.end) if now < t < math.inf)})

    def free_during(self, shape, begin, end, now):
        """Whether there is room all the time, by what is expected."""
        instants = [begin, *(t for t in self.instants(now) if begin < t < end)]
        return self.could_hold(shape) and all(
            self.room(shape, [i for i in self.items() if i.is_there(t)]) for t in instants
        )

    def utilisation(self, weights):
        """Of what runs and has been started."""
        capacity = self.node.capacity
        now_there = [*self.running, *self.started, *(i for i in self.planned if i.promised_to is None)]
        top = bottom = 0.0
        for kind in sorted({*capacity, *self.node.used}):
            if weights.get(kind, 0.0) > 0 and capacity.get(kind, 0) > 0:
                used = sum(i.resources.get(kind, 0) for i in now_there)
                top += weights[kind] * (1.0 - (capacity[kind] - used) / capacity[kind])
                bottom += weights[kind]
        return round(top / bottom * 1e12) / 1e12 if bottom else 0.0


class Reference:
    def __init__(self, problem):
        self.p = problem
        self.views = {view.id: view for view in problem.queues}
        self.children = {view.id: [v for v in problem.queues if v.parent == view.id] for view in problem.queues}
        self.nodes = [
            ReferenceNode(node, [h for h in problem.holds if h.node == node.name], problem.now)
            for node in sorted(problem.nodes, key=lambda node: node.name)
        ]
        self.total = {}
        for node in problem.nodes:
            if node.state in (NodeState.UP, NodeState.DRAINING):
                for kind, amount in node.capacity.items():
                    self.total[kind] = self.total.get(kind, 0) + amount
        self.jobs = [job for queue in problem.waiting for job in jobs_of(problem, queue)]
        self.unlooked = {queue: jobs_of(problem, queue) for queue in problem.waiting}
        self.placed = {}  # job -> (its record, amount)
        self.promised = {}
        self.placements, self.reservations, self.reasons = [], [], {}
        self.blocked = set()
        self.is_closed = False  # with strict: a job waits that none may pass

    def run(self):
        while (job := self.next_one()) is not None:
            self.unlooked[job["queue"]].remove(job)
            self.look(job)
        return self.placements, self.reservations, self.reasons

    # --- whose turn it is

    def next_one(self):
        by_limit = self.p.backfill == "easy" and self.p.backfill_order == "shortest"
        if by_limit and len(self.reservations) >= self.p.reserve_depth:
            left = [job for jobs in self.unlooked.values() for job in jobs]
            return min(left, key=lambda job: (limit_of(job), job["submitted_at"], job["id"]), default=None)
        return self.next_job(self.p.queues[0])

    def shown(self, view):
        """The priority that a queue has inside itself; None if nothing is left."""
        if self.children[view.id]:
            shown = [self.lifted(child) for child in self.children[view.id]]
            return max((p for p in shown if p is not None), default=None)
        return max((job["priority"] for job in self.unlooked.get(view.id, [])), default=None)

    def lifted(self, view):
        shown = self.shown(view)
        if shown is None:
            return None
        offset = view.properties.priority_offset
        if view.properties.priority_policy == "fence":
            return offset
        return max(-(2**31), min(2**31 - 1, shown + offset))

    def below(self, view):
        return {view.id}.union(*(self.below(child) for child in self.children[view.id]))

    def used(self, view):
        used = dict(self.p.used.get(view.id, {}))
        for job, amount in self.placed.values():
            if job["queue"] in self.below(view):
                add(used, amount)
        return used

    def pending(self, view):
        pending = {}
        for job in self.jobs:
            if job["queue"] in self.below(view) and job["id"] not in self.placed:
                add(pending, whole(job["kind"].shape, job["kind"].shape.nodes))
        return pending

    def share(self, view):
        share = 0.0
        for kind, amount in self.used(view).items():
            if amount > 0 and (kind in view.guaranteed or kind in view.effective_max):
                denominator = view.guaranteed.get(kind, view.effective_max.get(kind))
                share = max(share, amount / denominator if denominator > 0 else 1.0)
        return share

    def weight(self, view):
        pending = self.pending(view)
        return sum(pending[k] / self.total[k] for k in sorted(pending) if self.total.get(k, 0) > 0)

    def next_job(self, view):
        """The job whose turn it is below a queue."""
        if not self.children[view.id]:
            return self.next_in_leaf(view)
        enabled = view.properties.sort_priority
        candidates = [child for child in self.children[view.id] if self.shown(child) is not None]
        if not candidates:
            return None
        return self.next_job(
            min(
                candidates,
                key=lambda c: (-self.lifted(c) if enabled else 0, self.share(c), -self.weight(c), c.path),
            )
        )

    def next_in_leaf(self, view):
        jobs = self.unlooked.get(view.id, [])
        if not jobs:
            return None
        if view.properties.sort_policy == "fifo":
            return jobs[0]
        enabled = view.properties.sort_priority

        def key(job):
            application = job["application"]
            if application < 0:
                return (-job["priority"] if enabled else 0, usage_key(view, []), job["submitted_at"], 0, job["id"])
            own = [j for j in jobs if j["application"] == application]
            best = max(j["priority"] for j in own)
            book = self.p.applications
            rest = (float(book.created_at[application]), 1, int(book.id_places[application]))
            return (-best if enabled else 0, usage_key(view, self.application_shares(view, application)), *rest)

        first = min(jobs, key=key)
        return next(j for j in jobs if j is first or (j["application"] == first["application"] >= 0))

    def application_shares(self, view, application):
        used = dict(self.p.applications.used.get(application, {}))
        for job, amount in self.placed.values():
            if job["application"] == application and job["queue"] == view.id:
                add(used, amount)
        shares = []
        for kind, amount in used.items():
            if amount > 0:
                real = [s[kind] for s in (view.guaranteed, view.effective_max, self.total) if s.get(kind, 0) > 0]
                shares.append(amount / (real[0] if real else 1))
        return sorted(shares, reverse=True)

    # --- quotas

    def path(self, queue):
        at = queue
        while at is not None:
            yield self.views[at]
            at = self.views[at].parent

    def charged(self):
        """Everybody who has room or is promised some: (queue, user, groups, application, amount)."""
        p = self.p
        listed = [(t.queue, t.user, t.groups, t.application, t.amount) for t in p.tenants]
        for job, amount in [*self.placed.values(), *self.promised.values()]:
            kind = job["kind"]
            listed.append((job["queue"], kind.user, kind.groups, kind.application, amount))
        return listed

    def over(self, job, amount):
        """The reason if the job may not have so much more."""
        kind = job["kind"]
        for view in self.path(job["queue"]):
            used = dict(self.used(view))
            for other, promised in self.promised.values():
                if other["queue"] in self.below(view):
                    add(used, promised)
            inside = [c for c in self.charged() if c[0] in self.below(view)]
            if breaks(used, view.maximum, amount) or self.one_too_many(job, inside, view.maxapplications):
                return "queue quota"
        for view in self.path(job["queue"]):
            inside = [c for c in self.charged() if c[0] in self.below(view)]
            for limit, mine in self.limits(view, kind):
                own = [c for c in inside if mine(c)]
                used = {}
                for charge in own:
                    add(used, charge[4])
                if breaks(used, limit.maxresources, amount) or self.one_too_many(job, own, limit.maxapplications):
                    return "user limit"
        return None

    @staticmethod
    def one_too_many(job, charges, most):
        if not most:
            return False
        named = {(c[0], c[3]) for c in charges if c[3] >= 0}
        mine = (job["queue"], job["kind"].application)
        if mine[1] >= 0 and mine in named:
            return False
        return len(named) + sum(c[3] < 0 for c in charges) >= most

    @staticmethod
    def limits(view, kind):
        """The limits of a queue that a job falls under, and whose usage counts."""
        users = {name for limit in view.limits for name in limit.users}
        groups = {name for limit in view.limits for name in limit.groups}
        for limit in view.limits:
            name = kind.user if kind.user in users else "*"
            if name in limit.users:
                yield limit, lambda c: c[1] == kind.user
            named = [group for group in kind.groups if group in groups]
            for group in {*named} & {*limit.groups}:
                yield limit, lambda c, group=group: group in c[2]
            if kind.groups and not named and "*" in limit.groups:
                yield limit, lambda c: bool(c[2]) and not groups.intersection(c[2])

    # --- nodes

    def in_order(self, nodes):
        sign = POLICIES[self.p.node_sort.type]
        weights = self.p.node_sort.resourceweights
        return sorted(nodes, key=lambda n: (sign * n.utilisation(weights), n.node.name))

    def within_quota(self, job, nodes, most, codes=("queue quota", "user limit")):
        """The nodes of a list that quotas let the job have: the first of them, or the smallest if these are more."""
        first = self.first_within(job, nodes, most, codes)
        if not job["kind"].shape.exclusive:
            return first
        smallest = self.first_within(job, self.by_part_of_quota(job, nodes, codes), most, codes)
        return [node for node in nodes if node in smallest] if len(smallest) > len(first) else first

    def first_within(self, job, nodes, most, codes):
        shape, chosen = job["kind"].shape, []
        for node in nodes:
            amount = {}
            for own in [*chosen, node]:
                add(amount, own.node.capacity if shape.exclusive else shape.resources)
            if len(chosen) < most and self.over(job, amount) not in codes:
                chosen.append(node)
        return chosen

    def by_part_of_quota(self, job, nodes, codes):
        """By the largest part of what is left of any limited type that a node would take; then as they stand."""
        left = {kind: self.left(job, kind, codes) for kind in {kind for node in nodes for kind in node.node.capacity}}
        parts = {
            id(node): max((node.node.capacity.get(kind, 0) / (most or 0.5) for kind, most in left.items()), default=0)
            for node in nodes
        }
        return sorted(nodes, key=lambda node: parts[id(node)])

    def left(self, job, kind, codes):
        """The most of a type that the job may have, by bisection."""
        low, high = 0, 2**60
        if self.over(job, {kind: high}) not in codes:
            return math.inf
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.over(job, {kind: middle}) in codes else (middle, high)
        return low

    def look(self, job):
        reason = self.try_to_start(job)
        if reason is None:
            return
        self.reasons[job["id"]] = reason
        self.blocked.add((job["queue"], job["kind_place"]))
        if reason not in ("resources", "reserved") or self.p.backfill == "none":
            return
        if self.p.backfill == "strict":
            if not self.is_closed:
                self.reserve(job)
            self.is_closed = True
        elif self.p.backfill == "conservative" or len(self.reservations) < self.p.reserve_depth:
            self.reserve(job)

    def try_to_start(self, job):
        shape, limit, now = job["kind"].shape, limit_of(job), self.p.now
        if found := self.over(job, whole(shape, shape.min_nodes)):
            return found
        free = [node for node in self.nodes if node.free_now(shape)]
        unpromised = [node for node in free if node.free_during(shape, now, now + limit, now)]
        chosen = self.within_quota(job, self.in_order(unpromised), shape.nodes)
        # which whole nodes fit a quota depends on which are there: once blocked, such a job stays so
        was_blocked = shape.exclusive and (job["queue"], job["kind_place"]) in self.blocked
        if len(chosen) >= shape.min_nodes and not was_blocked and not self.is_closed:
            self.start(job, chosen)
            return None
        able = [node for node in self.nodes if node.could_hold(shape)]
        if shape.exclusive and len(able) >= shape.min_nodes:
            queues = dict.fromkeys(["queue quota", "user limit"])
            for code in queues:
                codes = ("queue quota",) if code == "queue quota" else tuple(queues)
                if len(self.within_quota(job, self.in_order(able), shape.min_nodes, codes)) < shape.min_nodes:
                    return code
        if len(able) < shape.min_nodes:
            return "no node fits"
        if self.is_closed:
            return "resources" if len(free) < shape.min_nodes else "reserved"
        return "resources" if len(free) < shape.min_nodes else self.reserved_or_not(free, unpromised)

    @staticmethod
    def reserved_or_not(free, unpromised):
        return "reserved" if len(unpromised) < len(free) else "resources"

    def start(self, job, nodes):
        shape, amount = job["kind"].shape, {}
        for node in nodes:
            taken = node.node.capacity if shape.exclusive else shape.resources
            node.started.append(Item(taken, shape.exclusive, self.p.now, self.p.now + limit_of(job)))
            add(amount, taken)
        self.placed[job["id"]] = (job, amount)
        self.placements.append((job["id"], tuple(node.node.name for node in nodes)))

    def reserve(self, job):
        shape, limit, now = job["kind"].shape, limit_of(job), self.p.now
        for instant in sorted({t for node in self.nodes for t in node.instants(now)}):
            fit = [n for n in self.nodes if n.free_during(shape, instant, instant + limit, now)]
            since = {id(n): room_since(n, shape, instant, instant + limit, now) for n in fit}
            order = sorted(self.in_order(fit), key=lambda n: -since[id(n)])  # stable: then the nodes' own order
            chosen = self.within_quota(job, order, shape.min_nodes)
            if len(chosen) < shape.min_nodes:
                continue
            amount = {}
            for node in chosen:
                taken = node.node.capacity if shape.exclusive else shape.resources
                node.planned.append(Item(taken, shape.exclusive, instant, instant + limit, job["id"]))
                add(amount, taken)
            self.promised[job["id"]] = (job, amount)
            self.reservations.append((job["id"], tuple(node.node.name for node in chosen), instant))
            return


def room_since(node, shape, instant, end, now):
    return min(t for t in node.instants(now) if t <= instant and node.free_during(shape, t, end, now))


def usage_key(view, shares):
    """What a leaf's policy compares."""
    return [-max(shares, default=0)] if view.properties.sort_policy == "busiest" else shares


def limit_of(job):
    limit = job["kind"].time_limit_s
    return math.inf if limit is None else limit


def whole(shape, n_nodes):
    return {kind: amount * n_nodes for kind, amount in shape.resources.items()}


def add(total, amount):
    for kind, value in amount.items():
        total[kind] = total.get(kind, 0) + value


def breaks(used, maximum, amount):
    return any(value and k in maximum and used.get(k, 0) + value > maximum[k] for k, value in amount.items())


def jobs_of(problem, queue):
    waiting = problem.waiting[queue]
    size = len(waiting.jobs)
    applications = [-1] * size if waiting.applications is None else waiting.applications.tolist()
    submitted = [0.0] * size if waiting.submitted_at is None else waiting.submitted_at.tolist()
    rows = zip(waiting.jobs.tolist(), waiting.priorities.tolist(), waiting.kinds.tolist(), strict=True)
    return [
        {
            "id": id_, "priority": priority, "kind_place": kind, "kind": problem.kinds[kind], "queue": queue,
            "application": application, "submitted_at": at,
        }
        for (id_, priority, kind), application, at in zip(rows, applications, submitted, strict=True)
    ]  # fmt: skip
