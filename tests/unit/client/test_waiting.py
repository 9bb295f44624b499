"""Waiting is tried on a small world of jobs, whose events come at given times of a clock that pauses move."""

from types import SimpleNamespace

import msgspec
import pytest

from rankd.client.error import WaitTimeout
from rankd.client.step import Effort, Pause, Room, next_step
from rankd.client.waiting import (
    FIRST_POLL_S,
    HINTED_S,
    LAST_POLL_S,
    LOOK_AGAIN_S,
    Wanted,
    begin,
    more,
    next_pause,
    wait_for,
)
from rankd.core.errors import Refused, Unavailable
from rankd.core.model.array import parse_name
from rankd.core.model.index_set import each
from rankd.wire.event import JobEventList, UserTransition


class World:
    """Jobs that end at their times; ``tasks``: (array, index) of some jobs; ``foreign``: jobs without events for us."""

    def __init__(self, ends, tasks=(), foreign=(), away=()):
        self.now = 0.0
        self.ends = ends
        self.tasks = dict(tasks)
        self.foreign = frozenset(foreign)
        self.away = away
        self.shown = []
        self.n_event_requests = 0

    def clock(self):
        return self.now

    def events(self):
        ended = sorted((at, job) for job, at in self.ends.items() if at <= self.now and job not in self.foreign)
        for number, (at, job) in enumerate(ended, start=1):
            more_ = {"array_job": self.tasks[job][0], "array_task": self.tasks[job][1]} if job in self.tasks else {}
            yield UserTransition(
                id=number, job=job, event="complete", state="completed", at=at, actor="n", user="me", **more_
            )

    def answer(self, ask):
        if any(begin <= self.now < end for begin, end in self.away):
            self.now += 0.1
            raise Unavailable("no_answer", "away")
        request = msgspec.json.decode(ask.payload)
        if ask.verb == "job.events":
            return self._events(request)
        self.shown.append(request["id"])
        return self._shown(request["id"])

    def _events(self, request):
        self.n_event_requests += 1
        found = list(self.events())
        last = len(found)
        if request["after"] is None:
            return JobEventList(events=[], last=last, more=False)
        page = [event for event in found if event.id > request["after"]][:2]
        if page and page[-1].id < last:
            return JobEventList(events=page, last=page[-1].id, more=True)
        return JobEventList(events=page, last=last, more=False)

    def _shown(self, name):
        parsed = parse_name(name)
        record = parsed.job
        if parsed.indices:
            [index] = each(parsed.indices)
            record = next(job for job, task in self.tasks.items() if task == (parsed.job, index))
        if record not in self.ends:
            raise Refused("unknown_job", f"there is no job {record}", "id", 404)
        return SimpleNamespace(id=record, state="completed" if self.ends[record] <= self.now else "running")

    def run(self, plan, *, hears=False):
        result = error = None
        while True:
            try:
                step = next_step(plan, result, error)
            except StopIteration as done:
                return done.value
            result = error = None
            if isinstance(step, Pause):
                self.now += self._pause(step) if hears else step.polled_s
            elif hasattr(step, "verb"):
                try:
                    result = self.answer(step)
                except (Refused, Unavailable) as raised:
                    error = raised
            else:
                assert not isinstance(step, Room)

    def _pause(self, step):
        """Until the next event, if the broker tells of it."""
        coming = [at for job, at in self.ends.items() if at > self.now and job not in self.foreign]
        return min([step.hinted_s, *(at - self.now for at in coming)])


def wait(world, names, timeout_s=None, **how):
    return [record.id for record in world.run(wait_for(names, Effort(30, world.clock), timeout_s), **how)]


@pytest.mark.parametrize("hears", [True, False])
def test_all_jobs_are_waited_for_and_come_in_the_order_of_the_request(hears):
    world = World({1: 30.0, 2: 5.0, 3: 0.0})
    assert wait(world, [1, 2, 3], hears=hears) == [1, 2, 3]
    assert 30 <= world.now <= 30 + (0.1 if hears else LAST_POLL_S)


def test_events_of_several_pages_are_all_seen():
    world = World(dict.fromkeys(range(1, 8), 10.0))
    assert wait(world, list(range(1, 8))) == list(range(1, 8))


def test_a_task_and_several_tasks_are_waited_for_by_their_names():
    world = World({5: 3.0, 6: 9.0, 7: 60.0}, tasks={5: (4, 0), 6: (4, 1), 7: (4, 2)})
    assert wait(world, ["4_[0-1]"]) == [5, 6]
    assert world.now < 60


def test_what_has_ended_needs_no_waiting():
    world = World({1: 0.0})
    assert wait(world, [1]) == [1]
    assert world.now == 0


def test_a_job_of_another_user_is_looked_at_now_and_then():
    world = World({1: 40.0, 2: 1e9}, foreign={1})
    assert wait(world, [1]) == [1]
    assert world.now <= 40 + LOOK_AGAIN_S + LAST_POLL_S
    assert len(world.shown) <= 2 + 40 / LOOK_AGAIN_S + 1


def test_it_ends_in_time_and_says_what_is_left():
    world = World({1: 5.0, 2: 100.0})
    with pytest.raises(WaitTimeout) as error:
        wait(world, [1, 2], timeout_s=20)
    assert error.value.left == [2]
    assert 20 <= world.now < 20.1


def test_it_ends_in_time_also_while_rankd_is_away():
    world = World({1: 100.0}, away=[(2.0, 500.0)])
    with pytest.raises(WaitTimeout):
        wait(world, [1], timeout_s=20)
    assert 19 <= world.now < 21


def test_rankd_may_be_away_for_as_long_as_the_wait_lasts():
    world = World({1: 10.0}, away=[(2.0, 500.0)])
    assert wait(world, [1]) == [1]
    gives_up = World({1: 10.0}, away=[(2.0, 500.0)])
    with pytest.raises(Unavailable):
        gives_up.run(wait_for([1], Effort(30, gives_up.clock), gives_up=True))


def test_a_job_that_does_not_exist_is_an_error_at_once():
    with pytest.raises(Refused, match="there is no job 9"):
        wait(World({1: 5.0}), [1, 9])


def test_where_nobody_tells_of_news_it_asks_ever_less_often():
    pauses = [next_pause(None)]
    while pauses[-1] < LAST_POLL_S:
        pauses.append(next_pause(pauses[-1]))
    assert pauses == sorted(pauses)
    assert pauses[0] == FIRST_POLL_S
    world = World({1: 1000.0})
    wait(world, [1])
    assert world.n_event_requests < 1000 / LAST_POLL_S + 20
    hearing = World({1: 1000.0})
    wait(hearing, [1], hears=True)
    assert hearing.n_event_requests < 1000 / HINTED_S + 5


def test_events_go_on_behind_the_last_one():
    world = World({1: 1.0, 2: 2.0, 3: 50.0})
    effort, wanted = Effort(30, world.clock), Wanted()
    first = world.run(begin(wanted, effort, None, None))
    assert (first.events, first.last) == ([], 0)
    seen, last = [], first.last
    while len(seen) < 3:
        page = world.run(more(wanted, effort, last))
        assert page.events
        seen, last = seen + [event.job for event in page.events], page.last
    assert seen == [1, 2, 3]
