"""Lists over the bus: pages that are stable while jobs come and go, and users who ask for too much at once."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import builder
import msgspec
import pytest
from integration.intake_stage import an_intake
from integration.stage import NOW, PATIENCE_S, a_cluster, ready

from rankd.bus.connection import Bus
from rankd.core.admission.submitter import Submitter
from rankd.core.change import job_action
from rankd.core.errors import Unavailable
from rankd.services.intake import look_verbs
from rankd.services.intake.look_turns import LookTurns
from rankd.services.intake.look_verbs import LookVerbs
from rankd.services.intake.rests import Rests
from rankd.store.engine.reading import fetch
from rankd.store.engine.url import open_database
from rankd.store.look import page
from rankd.store.look.job_filter import count_jobs, job_ids
from rankd.store.look.web.catalog import LOOKS
from rankd.store.look.web.nodes import NODES
from rankd.wire.message import JobFilter, JobList, PriorityList, TableFilter

JOB = {"command": ["true"]}
AT_ONCE = 10_000
FLOOD = 40
LARGEST_REPLY = 2**20


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def test_a_flood_of_lists_of_one_user_holds_up_neither_health_nor_anybodys_submissions(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage, Bus(broker.url, "test") as bus:
        for _ in range(10):
            assert len((await stage.do("job.submit", {"jobs": [JOB] * AT_ONCE})).body["accepted"]) == AT_ONCE
        before = resident_bytes()
        answered: list[int] = []
        wanted = b'{"users": ["alice"], "limit": 100000}'

        async def ask() -> None:
            reply = await stage.connection.request("rankd.v1.user.alice.job.list", wanted, timeout=PATIENCE_S)
            answered.append(int((reply.headers or {}).get("Nats-Service-Error-Code", 200)))

        async with asyncio.TaskGroup() as group:
            for _ in range(FLOOD):
                group.create_task(ask())
            await stage.connection.flush()
            assert await stage.submit("bob") == 10 * AT_ONCE + 1
            await ready(bus, "intake")
            assert len((await stage.do("job.list", {"users": ["bob"]}, "bob")).body["jobs"]) == 1
            before_the_others = answered.count(200)
        refused = answered.count(429)
        assert answered.count(200) + refused == FLOOD
        assert refused == FLOOD - 21, "one is answered, 20 wait"
        assert before_the_others < 21, "bob need not wait until all of alice's are answered"
        assert resident_bytes() - before < 100 * LARGEST_REPLY


async def test_pages_hold_each_job_once_while_others_come_and_go(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await stage.do("job.submit", {"jobs": [JOB] * 25})
        for body, ascending in (({"limit": 10}, False), ({"limit": 10, "after": 0}, True)):
            request, seen = dict(body), list[int]()
            while request is not None:
                answer = (await stage.do("job.list", request)).body
                seen += [job["id"] for job in answer["jobs"]]
                await stage.submit()
                request = body | answer["next"] if "next" in answer else None
            assert seen[:25] == (list(range(1, 26)) if ascending else list(range(seen[0], seen[0] - 25, -1)))
            assert len(set(seen)) == len(seen)


async def test_a_page_says_how_many_there_are_if_it_is_asked(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await stage.do("job.submit", {"jobs": [JOB] * 5})
        answer = (await stage.do("job.list", {"limit": 2, "count": True})).body
        assert ([job["id"] for job in answer["jobs"]], answer["total"], answer["next"]) == ([5, 4], 5, {"before": 4})
        second = (await stage.do("job.list", {"limit": 4, "count": True} | answer["next"])).body
        assert ([job["id"] for job in second["jobs"]], second["total"], "next" in second) == ([3, 2, 1], 5, False)
        acct = (await stage.do("job.acct", {"limit": 2, "count": True, "until": 1.0})).body
        assert acct == {"jobs": [], "total": 0}


@pytest.mark.parametrize("limit", [0, -1, 2**63, "x"])
@pytest.mark.parametrize("verb", ["job.list", "job.acct", "priority.list", "node.list", "deadletter.list"])
async def test_a_limit_is_a_number_from_one_on(broker, tmp_path, verb, limit):
    async with an_intake(broker, tmp_path) as stage:
        reply = await stage.do(verb, {"limit": limit})
        assert (reply.status, reply.body["code"]) == (400, "bad_field")


def sent(found, room):
    """The answer as it is sent."""
    return json.loads(msgspec.json.encode(page.answer(found, room)))


async def test_pages_of_priorities_skip_nobody_who_waits_all_the_time(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        ranks = cluster.prioritizer()
        await cluster.submit(*[builder.accepted()] * 30)
        await ranks.run_once(NOW + 1)
        wanted, seen = PriorityList(limit=7), list[int]()
        gone = iter(range(1, 31))
        while True:
            answer = await cluster.database.read(
                lambda c, wanted=wanted: sent(page.priority_page(c.connection, wanted), 10**6)
            )
            seen += [row["id"] for row in answer["jobs"]]
            if "next" not in answer:
                break
            wanted = PriorityList(limit=7, behind=page.RankPlace(**answer["next"]["behind"]))
            await cluster.act(job_action.cancel, next(gone), next(gone), at=NOW + 2)
            await ranks.run_once(NOW + 3)
        assert seen == list(range(1, 31))


async def test_a_page_has_no_more_than_fits_into_a_message():
    rows = [{"id": number, "text": "x" * 90} for number in range(100)]
    whole = page.Page("jobs", rows, False, lambda row: {"after": row["id"]})
    answer = sent(whole, 1_000)
    assert 1 <= len(answer["jobs"]) < 10
    assert answer["next"] == {"after": answer["jobs"][-1]["id"]}
    assert len(sent(whole, 1)["jobs"]) == 1
    assert "next" not in page.answer(whole, 10**6)


async def test_tables_come_in_pages_too(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        for node in ("n3", "n1", "n2"):
            body = {"resources": {"vcore": 2}, "agent": node, "partition": "default"}
            await stage.ask(f"rankd.v1.node.{node}.register", body)
        first = (await stage.do("node.list", {"limit": 2})).body
        assert [node["name"] for node in first["nodes"]] == ["n1", "n2"]
        second = (await stage.do("node.list", {"limit": 2} | first["next"])).body
        assert ([node["name"] for node in second["nodes"]], "next" in second) == (["n3"], False)
        shares, request = [], {"limit": 1}
        while request is not None:
            answer = (await stage.do("share.list", request)).body
            shares += answer["shares"]
            request = {"limit": 1} | answer["next"] if "next" in answer else None
        assert shares == (await stage.do("share.list")).body["shares"]


async def test_users_take_turns_and_who_has_too_many_waiting_is_refused(tmp_path):
    async with open_database(tmp_path / "rankd.db", durable=False) as database:
        lookers = LookTurns(database, Rests(time.time), slots=1, per_user=1, waiting=3)
        go_on, order = threading.Event(), list[str]()

        def query(name: str):
            def work(_connection: object) -> None:
                go_on.wait(PATIENCE_S)
                order.append(name)

            return work

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(lookers.look("alice", query(f"alice {n}"))) for n in range(4)]
            await asyncio.sleep(0)
            group.create_task(lookers.look("bob", query("bob")))
            gone = group.create_task(lookers.look("carol", query("carol")))
            await asyncio.sleep(0)
            with pytest.raises(Unavailable, match="3 looking requests of alice wait") as refused:
                await lookers.look("alice", query("too many"))
            assert (refused.value.code, refused.value.status) == ("too_many_requests", 429)
            gone.cancel()
            go_on.set()
            await asyncio.wait(tasks)
        assert order == ["alice 0", "alice 1", "bob", "alice 2", "alice 3"]
        assert await lookers.look("alice", lambda _: 5) == 5


def page_looks(database, monkeypatch, read):
    """The looking verbs, and what asks the page's list of nodes, which ``read`` answers."""
    looks = LookVerbs(database, Rests(time.time), lambda: LARGEST_REPLY, None, lambda: False)
    monkeypatch.setitem(LOOKS, "nodes", NODES._replace(read=read))
    [verb] = [verb for verb in looks.verbs() if verb.name == "page.look"]
    return looks, lambda user: verb.handler(Submitter(user, privileged=False), b'{"look": "nodes"}')


async def test_lists_of_the_page_hold_up_no_request_about_one_job(tmp_path, monkeypatch):
    async with open_database(tmp_path / "rankd.db", durable=False) as database:
        go_on, begun = threading.Event(), threading.Semaphore(0)

        def read(*_given: object) -> list[object]:
            begun.release()
            go_on.wait(PATIENCE_S)
            return []

        looks, ask = page_looks(database, monkeypatch, read)
        async with asyncio.TaskGroup() as group:
            for user in ("alice", "bob", "carol", "dave"):
                group.create_task(ask(user))
            for _ in range(2):
                assert await asyncio.to_thread(begun.acquire, timeout=PATIENCE_S)
            try:
                async with asyncio.timeout(PATIENCE_S):
                    assert await looks.single.look("erin", lambda _: 5) == 5
                assert not go_on.is_set()
            finally:
                go_on.set()


async def test_a_look_of_the_page_that_takes_too_long_is_interrupted(tmp_path, monkeypatch):
    endless = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"
    monkeypatch.setattr(look_verbs, "LONGEST_LOOK_S", 0.05)
    async with open_database(tmp_path / "rankd.db", durable=False) as database:
        looks, ask = page_looks(database, monkeypatch, lambda reader, *_: fetch(reader, endless))
        with pytest.raises(Unavailable, match=r"longer than 0\.05 s"):
            await ask("alice")
        assert await looks.lists.look("alice", lambda _: 5) == 5


async def test_beside_others_a_user_whose_requests_wait_rests_after_each(tmp_path):
    async with open_database(tmp_path / "rankd.db", durable=False) as database:
        order = list[str]()
        lookers = LookTurns(database, Rests(time.time), slots=1, per_user=1, waiting=3)

        def query(name: str, length_s: float = 0.0):
            def work(_connection: object) -> None:
                time.sleep(length_s)
                order.append(name)

            return work

        for others, expected in (("bob", ["long", "bob", "short"]), ("alice", ["long", "short", "bob"])):
            order.clear()
            rests = lookers._rests = Rests(time.time)
            rests.note(others)
            async with asyncio.TaskGroup() as group:
                first = group.create_task(lookers.look("alice", query("long", 0.5)))
                await asyncio.sleep(0)
                group.create_task(lookers.look("alice", query("short")))
                await first
                group.create_task(lookers.look("bob", query("bob")))
            assert order == expected


async def test_ids_are_counted_and_cut_from_the_newest_end(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        await cluster.submit(*[builder.accepted()] * 5)

        def look(connection):
            reader = connection.connection
            assert job_ids(reader, JobFilter(limit=2)) == [5, 4]
            assert job_ids(reader, JobFilter(limit=2, after=1)) == [2, 3]
            assert job_ids(reader, JobList(limit=2, before=4)) == [3, 2]
            assert count_jobs(reader, JobList(limit=1, before=4)) == 5
            assert page.LISTINGS["node.list"].page(reader, TableFilter()).rows == []

        await cluster.database.read(look)


FEWER = (
    "from rankd.cli.common import bus_source, limit; from rankd.cli.main import process;"
    " bus_source.MOST_BY_BUS = limit.MOST_BY_BUS = 1_000; raise SystemExit(process())"
)
"""The command line, but with a tenth of the jobs that it fetches over the bus without ``--limit``."""


async def rankd(*words: str, program: tuple[str, ...] = ("-m", "rankd")) -> tuple[str, str]:
    command = [sys.executable, *program, *words]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


async def test_the_command_line_follows_the_pages_and_says_what_it_leaves_out(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await stage.do("job.submit", {"jobs": [JOB] * 2_500})
        place = ("--nats", broker.url, "--json")
        printed, said = await rankd("list", *place)
        assert [job["id"] for job in json.loads(printed)] == list(range(1, 2_501))
        assert said == ""
        for command in (("list",), ("acct",), ("queue", "-t", "all")):
            printed, said = await rankd(*command, *place, "--limit", "1200")
            assert sorted(job["id"] for job in json.loads(printed)) == list(range(1_301, 2_501))
            assert "only the newest 1,200 of 2,500 jobs are shown" in said
        local = ("--db", str(stage.path), "--json", "--limit", "2")
        for command in (("acct",), ("queue", "-t", "all")):
            printed, said = await rankd(*command, *local)
            assert sorted(job["id"] for job in json.loads(printed)) == [2_499, 2_500]
            assert "only the newest 2 of 2,500 jobs are shown" in said


async def test_a_summary_counts_all_jobs_over_the_bus_also_where_a_list_is_cut(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await stage.do("job.submit", {"jobs": [JOB] * 2_500})
        fewer, place = ("-c", FEWER), ("--nats", broker.url, "--json")
        listed, said = await rankd("acct", *place, program=fewer)
        assert len(json.loads(listed)) == 1_000
        assert "only the newest 1,000 of 2,500 jobs are shown; give --limit N, or a filter" in said
        for words in ((), ("--per", "day"), ("-j", "1-2500")):
            printed, said = await rankd("acct", "--summary", "user", *words, *place, program=fewer)
            assert (sum(one["jobs"] for one in json.loads(printed)), said) == (2_500, "")
        local, _ = await rankd("acct", "--summary", "user", "--db", str(stage.path), "--json")
        assert [one["jobs"] for one in json.loads(local)] == [2_500]
        printed, said = await rankd("acct", "--summary", "user", "--limit", "1200", *place)
        assert [one["jobs"] for one in json.loads(printed)] == [1_200]
        assert "only the newest 1,200 of 2,500" in said
