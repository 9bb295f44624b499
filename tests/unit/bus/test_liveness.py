"""Loops that hang are found, named, and end the service; a service that waits for something known goes on."""

import asyncio

from rankd.bus.liveness import HUNG, LEAST_END_S, LOOK_EVERY_S, Loops, LoopWatch


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def watched():
    clock, ends = Clock(), []
    loops = Loops(clock)
    return clock, loops, LoopWatch(loops, ends.append), ends


def test_a_loop_is_late_once_its_bound_has_passed_without_a_beat():
    clock, loops, _, _ = watched()
    loop = loops.add("relay", bound_s=10.0)
    clock.now += 10.0
    assert not loop.is_late
    clock.now += 0.1
    assert loops.late == [loop]
    assert "'relay'" in loops.verdict()
    loop.beat()
    assert loops.verdict() is None


def test_a_rest_that_a_loop_announces_does_not_count():
    clock, loops, _, _ = watched()
    loop = loops.add("relay", bound_s=10.0)
    loop.beat(rest_s=60.0)
    clock.now += 70.0
    assert not loop.is_late
    clock.now += 0.1
    assert loop.is_late


def look_for(seconds, clock, watch):
    for _ in range(int(seconds / LOOK_EVERY_S)):
        clock.now += LOOK_EVERY_S
        watch.run_once()


def test_a_loop_that_hangs_for_too_long_ends_the_service_once():
    clock, loops, watch, ends = watched()
    loops.add("relay", bound_s=1.0)
    look_for(LEAST_END_S, clock, watch)
    assert ends == []
    look_for(3.0, clock, watch)
    assert ends[0] == HUNG


def test_while_the_service_waits_for_something_known_nothing_ends_it():
    clock, loops, watch, ends = watched()
    loops.add("relay", bound_s=1.0)
    loops.reasons.append(lambda: "there is no broker")
    look_for(3 * LEAST_END_S, clock, watch)
    assert ends == []
    assert loops.verdict() == "waiting: there is no broker (held up: relay)"


def test_a_frozen_process_does_not_count_as_hanging():
    clock, loops, watch, ends = watched()
    loops.add("relay", bound_s=1.0)
    clock.now += 10 * LEAST_END_S
    watch.run_once()
    assert ends == []


def test_a_loop_that_was_dropped_is_forgotten():
    clock, loops, _, _ = watched()
    loops.add("relay", bound_s=1.0)
    clock.now += 5.0
    loops.drop("relay")
    loops.drop("relay")
    assert loops.verdict() is None


async def test_a_loop_that_is_run_is_that_of_the_task_which_runs_it():
    loops, beats = Loops(), []

    async def work(beat):
        beat()
        beats.append(asyncio.current_task())

    async with asyncio.TaskGroup() as group:
        task = group.create_task(loops.run("work", 5.0, work))
    [loop] = loops.all
    assert (loop.name, loop.bound_s, loop.task, beats) == ("work", 5.0, task, [task])
