"""What the services run all the time finds its rows by an index: nothing reads a million jobs to find a few."""

import re

import pytest
from builder import NOW
from contract.engine import Sqlite
from contract.store import ROOT, Store
from contract.world import BLOCKED, FIRST, RUNNING, SECOND, allocate, fill_world
from query_plan import plans, plans_of_reader

from rankd.core.change.job_action import cancel
from rankd.core.change.job_change import Change
from rankd.core.model.job import Dependency, Event, State
from rankd.core.model.service_setting import NotificationSettings
from rankd.core.notification.content import Content
from rankd.core.session.step import StepEnd
from rankd.store.feed.application import begun_applications, changing_applications
from rankd.store.feed.charge import open_charges
from rankd.store.feed.event import read_unpublished
from rankd.store.feed.factor_value import stored_values
from rankd.store.feed.job import load_columns, load_jobs
from rankd.store.feed.job_end import happened_since, with_other_limits
from rankd.store.feed.new_pending import pending_between
from rankd.store.feed.notification import due_in, missed_events, next_lane, noted_until
from rankd.store.feed.occupancy import read_open
from rankd.store.feed.pending import active_by_association, jobs_of_class
from rankd.store.feed.pending_kind import all_arrays, all_tasks, changed_arrays, changed_tasks, indices_in
from rankd.store.feed.shape import read_shape
from rankd.store.look.array_grid import array_grid
from rankd.store.look.newest import newest
from rankd.store.look.queue_first import first_of_queues
from rankd.store.look.rank_window import RankFilter, window
from rankd.store.look.service_past import last_generations
from rankd.store.record.allocation import ReasonRow
from rankd.store.record.allocation_device import devices_of, devices_of_nodes, held_devices
from rankd.store.record.allocation_order import forget_orders, open_orders, order_limits
from rankd.store.record.array import which_are_arrays
from rankd.store.record.array_match import outcome_of, waiting_array
from rankd.store.record.catalog import forget_idle_queues, read_catalog
from rankd.store.record.delivery import Ask, give, take_back, untaken, waiting_nodes
from rankd.store.record.dependency import (
    blocked_jobs,
    indices_of,
    known_jobs,
    predecessors_of,
    progress_of,
    show_reason,
    still_blocked,
)
from rankd.store.record.descendant import descendants_of
from rankd.store.record.history import EVENT_TABLES, Named, prune_events, prune_jobs
from rankd.store.record.job import known_keys, read_states
from rankd.store.record.job_action import act, select_ids
from rankd.store.record.job_name import Target, targets_of
from rankd.store.record.job_step import StepTask, begin_task, end_steps, take_step_ends
from rankd.store.record.job_story import past_events
from rankd.store.record.notification import Due, Outcome, Parcel, finish, note_events, prune_done
from rankd.store.record.pending_count import count_pending
from rankd.store.record.report import take_reports
from rankd.store.record.wait_part import count_waits, save_spells
from rankd.wire.message import JobFilter, Report

LONG = re.compile(
    r"SCAN (jobs|job_events|allocations|allocation_nodes|allocation_devices|applications|dead_letters|notifications"
    r"|allocation_orders|job_steps|old_keys|reason_spells)\b"
    r"(?: USING.* INDEX (\w+))?"
)
SHORT = {
    "jobs_state",
    "jobs_arrays",
    "allocations_open",
    "allocations_to_end",
    "allocations_uncharged",
    "allocation_devices_held",
    "job_steps_open",
    "allocation_nodes_untaken",
    "dead_letters_unpublished",
}
"""Partial indexes that have only the rows that a statement looks for."""

CONTENT = Content(id=1, event="fail", job=1, state="failed", at=NOW, user="alice", name="a", queue="root.a")
PARCEL = Parcel(event_id=1, place=0, job=1, user="alice", target="mailto:alice@example.org", content=CONTENT)
AFTER_A_JOB = [Dependency(type="afterok", job=BLOCKED)]
ENDED = Report(allocation=3, job=RUNNING, kind="ended", at=NOW, exit_status=1)
NONE = Named(frozenset(), 0)
HOLDS = Change(job=FIRST, state=State.PENDING, event=Event.HOLD, actor="root", columns={"held": True})
REASON = ReasonRow(queue=0, shape=1, time_limit_s=-1, user="", application=-2, reason="resources", fact="too few")


@pytest.fixture
async def world(tmp_path):
    async with Sqlite().open_copy(fill_world, tmp_path) as database:
        opened = Store(database)
        opened.catalog = await opened.read(read_catalog)
        yield opened


def long_scans(found):
    """The steps that read a long table from its beginning to its end."""
    matches = ((LONG.match(step), statement) for statement, steps in found for step in steps)
    return [(match[0], statement) for match, statement in matches if match and match[2] not in SHORT]


def watched(verb, *arguments, **named):
    """Runs the verb and returns its long scans."""

    def run(connection):
        with plans(connection) as found:
            result = verb(connection, *arguments, **named)
            if hasattr(result, "__next__"):
                list(result)
        assert found, "it runs no statement"
        return long_scans(found)

    return run


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        (count_pending, []),
        (count_pending, ["alice"]),
        (known_keys, [[("alice", "k")]]),
        (read_states, [[FIRST, SECOND]]),
        (progress_of, [[FIRST, 99, "1_3"]]),
        (known_jobs, [[FIRST, 99]]),
        (blocked_jobs, [[BLOCKED, FIRST]]),
        (still_blocked, [[BLOCKED], 0, NOW]),
        (predecessors_of, [[BLOCKED, FIRST]]),
        (indices_of, [[FIRST, 99]]),
        (outcome_of, [[1], (range(3),)]),
        (waiting_array, [1]),
        (descendants_of, [[Target(FIRST), Target(FIRST, 3)], "alice"]),
        (past_events, [FIRST]),
        (select_ids, [JobFilter()]),
        (select_ids, [JobFilter(users=["alice"], states=["pending"])]),
        (select_ids, [JobFilter(ids=[FIRST, SECOND], after=1)]),
        (select_ids, [JobFilter(queues=["root.default"], partitions=["default"], names=["x"], qos=["normal"])]),
        (waiting_nodes, []),
        (waiting_nodes, [["n1", "n2"]]),
        (open_orders, [["n1"]]),
        (untaken, []),
        (read_shape, [FIRST]),
        (happened_since, [1]),
        (with_other_limits, [1]),
        (changing_applications, [[1, 2]]),
        (begun_applications, [1]),
        (stored_values, [["luck"]]),
        (read_open, [[1, 2, 3]]),
        (held_devices, []),
        (devices_of, [[1, 2]]),
        (devices_of_nodes, [["n1"]]),
        (open_charges, []),
        (load_jobs, []),
        (load_columns, []),
        (active_by_association, []),
        (jobs_of_class, ["gold"]),
        (read_unpublished, [100, 100]),
        (pending_between, [0, 100]),
        (all_arrays, []),
        (changed_arrays, [1]),
        (all_tasks, []),
        (changed_tasks, [1]),
        (indices_in, [[1, 2]]),
        (targets_of, [[FIRST, "1_3"]]),
        (next_lane, [""]),
        (due_in, ["mailto", 4, [1, 2], NOW]),
        (noted_until, []),
        (missed_events, [1]),
        (which_are_arrays, [[1, 2]]),
        (count_waits, [[HOLDS], NOW]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_reading_scans_no_long_table(world, verb, arguments):
    assert await world.read(watched(verb, *arguments)) == []


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        (act, [[RUNNING, FIRST], ROOT, NOW, cancel]),
        (give, [[Ask(node=node, agent=node, known=frozenset()) for node in ("n1", "n2")], 3, NOW]),
        (take_reports, [[("n1", ENDED), ("n2", ENDED)], 3, NOW]),
        (order_limits, [{RUNNING: 5.0}]),
        (forget_orders, [[1, 2]]),
        (begin_task, [StepTask(3, "s2", None, 0, 0, "true", "bob"), NOW]),
        (begin_task, [StepTask(3, "s3", 0, 1, 1, "true", "bob"), NOW]),
        (take_step_ends, [[("n1", StepEnd(allocation=3, number=0, at=NOW, exit_status=0))], NOW]),
        (end_steps, [[1, 3]]),
        (show_reason, [[BLOCKED], "begin time", NOW]),
        (forget_idle_queues, [NOW]),
        (prune_jobs, [0, NOW, NONE]),
        *((prune_events, [table, 0, NOW + 10]) for table in EVENT_TABLES),
        (note_events, [[1, 2, 3, 4], NotificationSettings(), NOW]),
        (finish, [[Outcome(Due(1, PARCEL, "mailto", 0, NOW))], NOW]),
        (prune_done, [NOW]),
        (save_spells, [[REASON], [], NOW]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_change_scans_no_long_table(world, verb, arguments):
    assert await world.write(watched(verb, *arguments)) == []


async def test_a_step_that_ends_is_found_by_its_key_among_all_that_run(world):
    def run(connection):
        with plans(connection) as found:
            take_step_ends(connection, [("n1", StepEnd(allocation=3, number=0, at=NOW, exit_status=0))], NOW)
        return [step for statement, steps in found for step in steps if "job_steps" in step]

    steps = await world.write(run)
    assert len(steps) == 2
    assert [step for step in steps if "allocation_id=? AND number=?" not in step] == []


async def test_an_allocation_and_its_return_scan_no_long_table(world):
    def run(connection):
        with plans(connection) as found:
            overdue = untaken(connection)
            assert take_back(connection, overdue, "not taken", 3, NOW + 60) == 1
        return long_scans(found)

    assert await allocate(world, FIRST, "n1")
    assert await world.write(run) == []


async def test_the_check_sees_a_long_scan(world):
    def run(connection):
        with plans(connection) as found:
            connection.exec_driver_sql("SELECT id FROM jobs WHERE name = ?", ("x",)).all()
            connection.exec_driver_sql("SELECT count(*) FROM jobs").all()
        return [step for step, _ in long_scans(found)]

    first, second = await world.read(run)
    assert first == "SCAN jobs"
    assert second.startswith("SCAN jobs USING COVERING INDEX")


@pytest.mark.parametrize(
    ("look", "arguments"),
    [
        (newest, []),
        (first_of_queues, []),
        (last_generations, [100]),
        (array_grid, [FIRST]),
        (window, [RankFilter(), 0, 50]),
        (window, [RankFilter(), 20_000, 50]),
        (window, [RankFilter(user="alice"), 0, 50]),
        (window, [RankFilter(only="alice", text="x"), 0, 50]),
        (window, [RankFilter(account="physics", queue="root", text="7"), 0, 50]),
    ],
)
async def test_the_page_reads_no_long_table_from_its_beginning_to_its_end(world, look, arguments):
    def run(connection):
        reader = plans_of_reader(connection.connection)
        look(reader, *arguments)
        assert reader.found, "it runs no statement"
        return long_scans(reader.found)

    assert await world.read(run) == []
