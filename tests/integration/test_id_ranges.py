"""Ranges of ids and ids of tasks' records, asked over the bus, by the Python client and by commands."""

import asyncio
import json
import time

import builder
import pytest
from integration.intake_stage import an_intake, joined
from integration.stage import NOW
from sqlalchemy import select

from rankd.cli.main import main
from rankd.client import Client
from rankd.store.engine.url import open_database
from rankd.store.record.allocation import NewAllocation, commit_allocations
from rankd.store.record.array import split_first
from rankd.store.schema.table import jobs


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


@pytest.fixture
async def stage(broker, tmp_path):
    """Job 1, array 2 of which two tasks have the records 3 and 4, bob's job 5, job 6."""
    async with an_intake(broker, tmp_path, unknown_association='"default"') as stage:
        await stage.submit("alice", held=True)
        await stage.submit("alice", held=True, array="0-4")
        async with open_database(tmp_path / "rankd.db") as database:
            assert await database.write(lambda c: split_first(c, 2, 2, "x", time.time())) == [3, 4]
        await stage.submit("bob", held=True)
        await stage.submit("alice", held=True)
        yield stage


def command(broker, capsys, *words):
    """Runs a command in another thread; its exit status, output and errors."""

    async def run():
        status = await asyncio.to_thread(main, [*words, "--nats", broker.url, "--as", "alice"])
        out, err = capsys.readouterr()
        return status, out, err

    return run()


async def started(database, array, number):
    """Allocates the first tasks of an array, as the scheduler does; their records."""

    def commit(connection):
        revision = connection.execute(select(jobs.c.revision).where(jobs.c.id == array)).scalar_one()
        new = NewAllocation(
            job=array, revision=revision, nodes=("n1",), resources={"vcore": 1}, charge_rate=1.0, generation=0,
            rank=1, of_array=True,
        )  # fmt: skip
        assert commit_allocations(connection, [new] * number, 1, NOW) == number
        return list(connection.execute(select(jobs.c.id).where(jobs.c.array_job == array)).scalars())

    return await database.write(commit)


async def test_a_change_of_a_range_never_means_a_task_by_its_record(stage):
    reply = (await stage.do("job.cancel", {"ids": ["3-5"]})).body
    assert (reply["done"], [one["message"] for one in reply["failed"]]) == ([], ["there is no job of alice in 3-5"])
    reply = (await stage.do("job.cancel", {"id": "4-900"})).body
    assert reply == {"done": [6], "failed": []}, "ids that do not exist, and bob's job, are passed over"
    reply = (await stage.do("job.cancel", {"filter": {"ids": ["1-4000000000"]}})).body
    assert reply == {"done": [1, 2, 3, 4], "failed": [], "names": ["1", "2_[2-4]", "2_0", "2_1"], "jobs": 6}
    assert stage.states()[5] == "pending"


@pytest.mark.usefixtures("stage")
async def test_the_client_takes_ranges_and_ids_of_records(broker):
    async with Client(broker.url, user="alice") as rankd:
        assert [row.id for row in await rankd.queue(ids=["3-6"])] == [5, 6]
        assert (await rankd.release("3-6")).done == [6]
        assert (await rankd.release(4)).done == [4]
        shown = await rankd.show(4)
        assert (shown.array_job, shown.array_task) == (2, 1)


@pytest.mark.usefixtures("stage")
async def test_a_dry_run_names_what_would_be_changed(broker, capsys):
    status, out, err = await command(broker, capsys, "cancel", "--dry-run", "1-900")
    assert (status, out, err) == (0, "7 jobs would be cancelled: 1, 2_[2-4], 2_0, 2_1, 6\n", "")
    _, out, _ = await command(broker, capsys, "release", "--dry-run", "4", "2_[3-4]")
    assert out == "3 jobs would be released: 2_1, 2_3, 2_4\n"
    _, out, _ = await command(broker, capsys, "update", "--comment", "x", "--dry-run", "2_3", "2")
    assert out == "6 jobs would be changed: 2_[2-4], 2_0, 2_1, 2_3\n"
    status, out, err = await command(broker, capsys, "update", "--array-limit", "2", "2_3", "6")
    assert (status, out) == (1, "")
    assert "job 2_3 is not an array" in err, "a task without a record has its own name"
    status, out, err = await command(broker, capsys, "cancel", "--me", "900", "3-4")
    assert (status, out) == (1, "")
    assert err == "rankd: there is no job 900 of alice\nrankd: there is no job of alice in 3-4\n"


@pytest.mark.usefixtures("stage")
async def test_a_task_is_named_alike_everywhere(broker, capsys):
    for name in ("2_1", "4"):
        status, out, _ = await command(broker, capsys, "history", name)
        assert (status, [line.split()[1] for line in out.splitlines()]) == (0, ["EVENT", "split"])
        _, out, _ = await command(broker, capsys, "queue", "-h", "-j", name)
        assert out.split()[0] == "2_1"
        _, out, _ = await command(broker, capsys, "acct", "-H", "-j", name)
        assert out.split()[0] == "2_1"
        status, _, err = await command(broker, capsys, "retry", name)
        assert (status, err.partition(" has not")[0]) == (1, "rankd: task 2_1")
    status, out, _ = await command(broker, capsys, "history", "2_3")
    assert (status, [line.split()[1] for line in out.splitlines()]) == (0, ["EVENT", "submit", "split"]), "its array's"
    status, _, err = await command(broker, capsys, "history", "2_77")
    assert (status, err) == (1, "rankd: there is no job 2_77\n")
    status, out, err = await command(broker, capsys, "why", "4")
    assert (status, "2_1" in out) == (0, True)
    status, _, err = await command(broker, capsys, "queue", "-j", "900-950")
    assert (status, err) == (1, "rankd: there is no job in 900-950\n")


async def test_a_retry_of_a_range_is_one_of_each_job_and_array(stage, broker, capsys):
    await stage.do("job.cancel", {"ids": [1, 2]})
    before = max(stage.states())
    status, out, err = await command(broker, capsys, "retry", "--failed", "1-5")
    assert (status, err) == (0, "")
    assert out == f"Submitted batch job {before + 1}\nSubmitted batch job {before + 2} (5 tasks)\n"
    assert stage.rows("SELECT retry_of FROM jobs WHERE id > ?", before) == [(1,), (2,)]
    status, out, err = await command(broker, capsys, "retry", "3-5")
    assert (status, out, err) == (1, "", "rankd: there is no job that you may submit again in 3-5\n")
    status, out, err = await command(broker, capsys, "retry", "6-900")
    assert (status, out) == (1, ""), "it has not ended"
    assert "job 6 is pending" in err


@pytest.mark.usefixtures("stage")
async def test_a_range_is_shown_job_by_job(broker, capsys):
    status, out, _ = await command(broker, capsys, "show", "2-6")
    assert status == 0
    assert [line.split() for line in out.splitlines() if line.startswith("id ")] == [
        ["id", "2"],
        ["id", "5"],
        ["id", "6"],
    ]
    status, _, err = await command(broker, capsys, "show", "3-4")
    assert (status, err) == (1, "rankd: there is no job in 3-4\n")


async def test_what_runs_of_an_array_in_a_range_is_passed_over_as_of_a_named_one(broker, tmp_path, capsys):
    async with an_intake(broker, tmp_path, unknown_association='"default"') as stage:
        await joined(stage, "n1")
        await stage.submit("alice", array="0-4")
        await stage.submit("alice", array="0-1")
        async with open_database(tmp_path / "rankd.db") as database:
            first = await started(database, 1, 2)
            second = await started(database, 2, 2)
        assert (first, second) == ([3, 4], [5, 6])

        async def changed(*words):
            status, out, err = await command(broker, capsys, *words, "--json")
            return status, json.loads(out)["names"], err

        assert await changed("hold", "1-1") == (0, ["1_[2-4]"], "")
        assert await command(broker, capsys, "hold", "1") == (0, "", "")
        nothing = "rankd: no task of array 2 is pending; only pending tasks can be held\n"
        assert await command(broker, capsys, "hold", "1-2") == (1, "", nothing), "no line for each running task"
        assert await command(broker, capsys, "hold", "2") == (1, "", nothing)
        assert await command(broker, capsys, "hold", "--me", "1-1", "2") == (1, "", nothing)
        assert await changed("update", "--comment", "x", "1-1") == (0, ["1_[2-4]"], "")
        unchanged = "rankd: no task of array 2 is pending; only pending tasks can be changed\n"
        assert await command(broker, capsys, "update", "--comment", "x", "2-2") == (1, "", unchanged)
        assert (await stage.do("job.update", {"id": 2, "comment": "y"})).body["code"] == "not_pending"
        assert await command(broker, capsys, "release", "1-2") == (
            1, "", "rankd: no task of array 2 is held; there is nothing to release\n",
        )  # fmt: skip
        _, _, err = await command(broker, capsys, "hold", "2_0")
        assert err == "rankd: job 2_0 is allocated; only pending jobs can be held\n", "a task by its name is no range"
        out = (await command(broker, capsys, "cancel", "--dry-run", "2-2"))[1]
        assert out == "2 jobs would be cancelled: 2_0, 2_1\n", "the record of a running array is no task"
