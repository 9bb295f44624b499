"""Which rows of arrays a list has."""

import pytest

from rankd.cli.common.freshness import Known
from rankd.cli.look import accounting_field
from rankd.cli.look.counted_row import accounted_once, counted_once

NOW = 1_000_000.0


def array_row(job=17, array=None, state="failed", **fields):
    return {"id": job, "array": array, "state": state, "nodelist": None, "cpu_s": None, "max_rss_bytes": None, **fields}


def task_row(job, task, state, cpu_s=1.5):
    return array_row(job, state=state, array_job=17, array_task=task, cpu_s=cpu_s, max_rss_bytes=task * 1024)


def of_acct(rows):
    return accounted_once(rows, [])


@pytest.mark.parametrize("counted", [counted_once, of_acct])
def test_an_ended_array_and_its_tasks_are_one_piece_of_work_each(counted):
    tasks = [task_row(18, 1, "failed"), task_row(19, 2, "completed")]
    single = array_row(20, state="failed")
    for array in (array_row(has_tasks=True), array_row(state="running", has_tasks=True)):
        assert counted([array, *tasks, single]) == [*tasks, single]
    pending, cancelled = array_row(array="3-9", state="pending", has_tasks=True), array_row(state="cancelled")
    assert counted([pending, *tasks]) == [pending, *tasks], "its pending tasks are work, too"
    assert counted([cancelled, single]) == [cancelled, single]
    assert "tasks" not in pending


@pytest.mark.parametrize("counted", [counted_once, of_acct])
def test_an_ended_array_is_left_out_also_of_a_list_without_its_tasks(counted):
    assert counted([array_row(has_tasks=True)]) == [], "its tasks timed out, so a list of failed jobs has none of them"


def test_a_named_array_has_the_total_of_its_tasks():
    array, *own = array_row(has_tasks=True), task_row(18, 1, "failed"), task_row(19, 2, "completed")
    assert accounted_once([array, *own], ["18-19", 18]) == own
    total, *tasks = accounted_once([array, *own], [17])
    assert (total["id"], total["cpu_s"], total["max_rss_bytes"], total["tasks"]) == (17, 3.0, 2048, tasks)
    assert accounted_once([array, *own], ["12-17"])[0]["cpu_s"] == 3.0, "or by a range"


def test_the_pending_rest_of_an_array_has_its_tasks_as_its_name_and_has_not_run():
    rest = array_row(
        array="2-3",
        array_limit=2,
        state="pending",
        has_tasks=True,
        started_at=NOW - 60,
        ended_at=None,
        nodes=1,
        cores=1.0,
    )
    columns = accounting_field.fields(Known({}, {}, NOW))
    shown = [columns[name].shown(rest) for name in ("jobid", "elapsed", "elapsedraw", "start", "cputime")]
    assert shown == ["17_[2-3%2]", "0:00", "0", "Unknown", "0:00"]
    total, row, _ = accounted_once([rest, task_row(18, 1, "running")], [17])
    assert [columns[name].shown(total) for name in ("jobid", "elapsed")] == ["17", "1:00"]
    assert columns["jobid"].shown(row) == "17_[2-3%2]"
