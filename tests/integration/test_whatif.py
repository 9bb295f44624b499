"""``rankd whatif`` on a live queue: what it says would happen, happens."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import builder
import pytest
from integration.stage import NOW, a_cluster

from rankd.config.configuration import load_configuration
from rankd.core.adapter.input import AssociationRow, FactorRow, Input, UsageRow
from rankd.core.model.access import AccessList
from rankd.core.model.priority_class import PriorityClass
from rankd.store.record.adapter import StoredInput
from rankd.store.record.adapter_result import register_adapters, save_input
from rankd.store.record.catalog import sync_catalog
from rankd.store.record.priority_class import change_classes, write_access

RANKD = Path(sys.executable).with_name("rankd")
TOML = """
[priority]
policy = "multifactor"
[priority.weights]
qos = {qos}
fairshare = 1000
[priority.fairshare]
algorithm = "classic"
[admission]
unknown_association = "refuse"
[[qos]]
name = "normal"
priority = 10
[[qos]]
name = "high"
priority = 100
"""
ACCOUNTS = """
accounts:
  - {{name: physics, shares: {physics}, users: [{{name: alice}}, {{name: bob}}]}}
  - {{name: biology, shares: 1, users: [{{name: carol}}]}}
"""
JOBS = (("alice", "physics", "normal"), ("bob", "physics", "high"), ("carol", "biology", "normal")) * 2


def write(directory: Path, *, qos: int = 50, physics: float = 3) -> Path:
    directory.mkdir()
    (directory / "rankd.toml").write_text(TOML.format(qos=qos))
    (directory / "accounts.yaml").write_text(ACCOUNTS.format(physics=physics))
    return directory


def rankd(tmp_path: Path, *words: object, status: int = 0, stdin: str = "") -> subprocess.CompletedProcess[str]:
    place = ["--db", str(tmp_path / "rankd.db"), "--live-config", str(tmp_path / "live")]
    command = [RANKD, "whatif", *place, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, input=stdin)
    assert done.returncode == status, done.stdout + done.stderr
    return done


def asked(tmp_path: Path, *words: object, stdin: str = "") -> dict:
    return json.loads(rankd(tmp_path, *words, "--json", stdin=stdin).stdout)


def ranking(cluster) -> list[tuple[int, int]]:
    """(job, priority) in the newest generation's order."""
    return cluster.rows("SELECT id, priority FROM job_priority WHERE rank IS NOT NULL ORDER BY rank")


@pytest.fixture
def live(tmp_path):
    builder.new_database(tmp_path)
    return load_configuration(write(tmp_path / "live"))


async def ranked(cluster) -> None:
    """Bob has used a lot."""
    usage = "UPDATE associations SET usage = 1e6 WHERE \"user\" = 'bob'"
    await cluster.database.write(lambda c: c.exec_driver_sql(usage))
    await cluster.submit(*[builder.accepted(user, account=account, qos=qos) for user, account, qos in JOBS])
    await cluster.prioritizer().run_once(NOW)


async def test_other_weights_move_the_jobs_that_they_then_move(broker, tmp_path, live):
    async with a_cluster(tmp_path, broker.url, live) as cluster:
        await ranked(cluster)
        before = [job for job, _ in ranking(cluster)]
        said = asked(tmp_path, "--weights", "qos=50000")
        equal = asked(tmp_path, "--weights", "qos=50000", "--qos", "high=10", "normal=100")
        short = asked(tmp_path, "--weights", "qos=50000", "--summary")
        assert "no priority class 'none'" in rankd(tmp_path, "--class-value", "none=5", status=1).stderr
        assert "there is no queue 'root.none'" in rankd(tmp_path, "--offset", "root.none=-5", status=1).stderr
        heavier = load_configuration(write(tmp_path / "heavier", qos=50_000))
        await cluster.prioritizer(heavier).run_once(NOW)
        after = ranking(cluster)
    moved = {move["job"]: (move["rank_before"], move["rank_after"], move["priority_after"]) for move in said["jobs"]}
    happened = {
        job: (before.index(job) + 1, place, priority)
        for place, (job, priority) in enumerate(after, start=1)
        if before.index(job) + 1 != place
    }
    assert moved == happened != {}
    assert (short["jobs"], short["moved"], short["owners"]) == ([], len(moved), said["owners"])
    owners = {row["user"]: (row["earlier"], row["later"]) for row in said["owners"]}
    assert sum(map(sum, owners.values())) == len(moved)
    assert owners["bob"][0] > 0
    assert {row["user"]: row["earlier"] for row in equal["owners"]}.get("bob", 0) == 0


async def test_another_configuration_keeps_the_usage(broker, tmp_path, live):
    async with a_cluster(tmp_path, broker.url, live) as cluster:
        await ranked(cluster)
        other = write(tmp_path / "other", physics=0.1)
        said = asked(tmp_path, "--config", other)
        reloaded = load_configuration(other)
        cluster.catalog = await cluster.database.write(lambda c: sync_catalog(c, reloaded, NOW))
        await cluster.prioritizer(reloaded).run_once(NOW)
        after = {job: place for place, (job, _) in enumerate(ranking(cluster), start=1)}
    assert said["jobs"]
    assert all(after[move["job"]] == move["rank_after"] for move in said["jobs"])
    assert said["refused"] == []


ADAPTER = """
[[adapters]]
name = "shares"
input = "associations"
adapter = "file"
options = { path = "shares.csv" }
"""


async def test_another_configuration_is_that_which_its_inputs_from_outside_make_of_it(broker, tmp_path, live):
    """Accounts that adapters bring, and those and QoS that it has no more, stay as in a reload."""
    other = write(tmp_path / "other", physics=0.1)
    for directory in (tmp_path / "live", other):
        with (directory / "rankd.toml").open("a") as file:
            file.write(ADAPTER)
    (other / "accounts.yaml").write_text("accounts: [{name: physics, shares: 0.2, users: [{name: alice, shares: 5}]}]")
    toml = (other / "rankd.toml").read_text().replace('[[qos]]\nname = "high"\npriority = 100\n', "")
    (other / "rankd.toml").write_text(toml)
    live, reloaded = load_configuration(tmp_path / "live"), load_configuration(other)
    rows = (AssociationRow(account="biology", shares=40), AssociationRow(account="optics", shares=2))
    given = Input(kind="associations", associations=rows)

    def store(connection):
        register_adapters(connection, live.settings.adapters)
        save_input(connection, StoredInput(name="shares", input=given, read_at=NOW))

    async with a_cluster(tmp_path, broker.url, live) as cluster:
        await cluster.database.write(store)
        cluster.catalog = await cluster.database.write(lambda c: sync_catalog(c, live, NOW))
        await ranked(cluster)
        said = asked(tmp_path, "--config", other)
        before = dict(ranking(cluster))
        cluster.catalog = await cluster.database.write(lambda c: sync_catalog(c, reloaded, NOW))
        await cluster.prioritizer(reloaded).run_once(NOW)
        after = ranking(cluster)
    places = {job: place for place, job in enumerate(before, start=1)}
    happened = {job: (place, priority) for place, (job, priority) in enumerate(after, start=1) if place != places[job]}
    assert {move["job"]: (move["rank_after"], move["priority_after"]) for move in said["jobs"]} == happened != {}
    assert said["refused"] == []


GIVEN = """
[[adapters]]
name = "used"
input = "usage"
adapter = "file"
options = { path = "used.csv" }
[[adapters]]
name = "values"
input = "factor"
factor = "qos"
adapter = "file"
options = { path = "values.csv" }
"""


async def test_what_adapters_gave_that_another_configuration_lacks_counts_no_more_in_it(broker, tmp_path, live):
    other = write(tmp_path / "other")
    with (tmp_path / "live" / "rankd.toml").open("a") as file:
        file.write(GIVEN)
    live, reloaded = load_configuration(tmp_path / "live"), load_configuration(other)
    used = Input(kind="usage", usage=(UsageRow(account="biology", user="carol", usage=3e9, usage_at=NOW - 1e5),))
    values = Input(kind="factor", factor="qos", values=(FactorRow(user="alice", value=1.0),))

    def store(connection):
        register_adapters(connection, live.settings.adapters)
        save_input(connection, StoredInput(name="used", input=used, read_at=NOW))
        save_input(connection, StoredInput(name="values", input=values, read_at=NOW))

    async with a_cluster(tmp_path, broker.url, live) as cluster:
        await cluster.database.write(store)
        await ranked(cluster)
        prioritizer = cluster.prioritizer()
        await prioritizer.adapters.start()
        await prioritizer.run_once(NOW)
        before, said = dict(ranking(cluster)), asked(tmp_path, "--config", other)
        cluster.catalog = await cluster.database.write(lambda c: sync_catalog(c, reloaded, NOW))
        await cluster.prioritizer(reloaded).run_once(NOW)
        after = ranking(cluster)
    places = {job: place for place, job in enumerate(before, start=1)}
    happened = {job: (place, priority) for place, (job, priority) in enumerate(after, start=1) if place != places[job]}
    assert {move["job"]: (move["rank_after"], move["priority_after"]) for move in said["jobs"]} == happened != {}
    assert said["refused"] == []


async def test_what_a_reload_would_refuse_is_refused(broker, tmp_path, live):
    async with a_cluster(tmp_path, broker.url, live) as cluster:
        await ranked(cluster)
    other = write(tmp_path / "other")
    with (other / "rankd.toml").open("a") as file:
        file.write(ADAPTER.replace('"file"', '"fiel"'))
    assert "the adapter 'fiel'" in rankd(tmp_path, "--config", other, status=2).stderr


async def test_a_job_that_names_no_qos_would_get_the_default_one(broker, tmp_path, live):
    job = {"command": ["true"], "account": "biology", "resources": {"vcore": 1}}
    async with a_cluster(tmp_path, broker.url, live) as cluster:
        await ranked(cluster)
        jobs = json.dumps([job, job | {"qos": ""}, job | {"qos": "normal"}, job | {"urgency": 31}])
        said = asked(tmp_path, "--submit", "-", "--as", "carol", stdin=jobs)["submitted"]
        [admin] = asked(tmp_path, "--submit", "-", "--as", "carol", "--admin", stdin=json.dumps(job | {"urgency": 31}))[
            "submitted"
        ]
        lacking = rankd(tmp_path, "--submit", "-", status=2, stdin='{"jobs": 5}').stderr
    factors = [{row["name"]: row["value"] for row in one["factors"]} for one in said[:3]]
    assert factors[0] == factors[1] == factors[2]
    assert factors[0]["qos"] > 0
    assert said[3]["error"] is not None
    assert (admin["error"], admin["rank"]) == (None, 1)
    assert "write a job as an object, a list of jobs" in lacking


async def test_a_job_lands_where_it_was_said_to_and_passes_those(broker, tmp_path, live):
    job = {"command": ["true"], "account": "biology", "qos": "high", "resources": {"vcore": 1}}
    async with a_cluster(tmp_path, broker.url, live) as cluster:
        await ranked(cluster)
        [said] = asked(tmp_path, "--submit", "-", "--as", "carol", stdin=json.dumps(job))["submitted"]
        text = rankd(tmp_path, "--submit", "-", "--as", "carol", stdin=json.dumps(job)).stdout
        await cluster.submit(builder.accepted("carol", account="biology", qos="high"))
        await cluster.prioritizer().run_once(NOW)
        order = ranking(cluster)
    place = [job for job, _ in order].index(7)
    assert (said["rank"], said["ranked"], said["priority"]) == (place + 1, 7, order[place][1])
    assert sum(said["passes"].values()) == 6 - place
    assert said["behind"] == order[place + 1][0]
    assert f"new-1 would have rank {place + 1} of 7" in text
    assert f"Just below it would be job {said['behind']}." in text


async def test_why_says_what_would_close_the_gap_and_it_does(broker, tmp_path, live):
    async with a_cluster(tmp_path, broker.url, live) as cluster:
        await ranked(cluster)
        order = [job for job, _ in ranking(cluster)]
        last = 2  # bob's first one: it stands behind somebody else's
        above = order[order.index(last) - 1]
        place = ["--db", str(tmp_path / "rankd.db"), "--live-config", str(tmp_path / "live")]
        command = [RANKD, "why", str(last), "--gap", *place]
        said = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout)
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert said["above"]["id"] == said["gap"]["other"] == above
        ways = {(way["kind"], way["what"]): way for way in said["gap"]["ways"]}
        assert not ways["time", ""]["closes"]
        assert ways["usage", ""]["closes"]
        assert f"What would put it before job {above} (all 6 waiting jobs compared):" in text
        left = ways["usage", ""]["amount"]
        usage = "UPDATE associations SET usage = usage * ? WHERE \"user\" = 'bob'"
        await cluster.database.write(lambda c: c.exec_driver_sql(usage, (left,)))
        await cluster.prioritizer().run_once(NOW)
        order = [job for job, _ in ranking(cluster)]
    assert order.index(last) < order.index(above)


async def test_what_can_not_be_asked_is_said(broker, tmp_path, live):
    async with a_cluster(tmp_path, broker.url, live) as cluster:
        await ranked(cluster)
    assert "give a change: --weights" in rankd(tmp_path, status=2).stderr
    assert "there is no factor 'aeg'" in rankd(tmp_path, "--weights", "aeg=1", status=2).stderr
    assert "qeue" in rankd(tmp_path, "--submit", "-", status=2, stdin='{"command": ["true"], "qeue": "x"}').stderr
    [refused] = asked(tmp_path, "--submit", "-", "--as", "mallory", stdin='{"command": ["true"]}')["submitted"]
    assert "mallory" in refused["error"]
    lacking = tmp_path / "lacking"
    lacking.mkdir()
    (lacking / "rankd.toml").write_text("[priority]\npolicy = 'fastest'\n")
    assert "fastest" in rankd(tmp_path, "--config", lacking, status=2).stderr


CLASSES = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: stated
  annotations: {{rankd/users: {users}}}
value: 500
"""


async def test_access_lists_that_classes_were_given_while_rankd_runs_stay_with_another_configuration(
    broker, tmp_path, live
):
    """A list of the other configuration goes before one that was given; a list that only the live one has is gone."""
    (tmp_path / "live" / "priorityclasses.yaml").write_text(CLASSES.format(users="alice"))
    live = load_configuration(tmp_path / "live")
    other, open_to_all = write(tmp_path / "other"), write(tmp_path / "open")
    (other / "priorityclasses.yaml").write_text(CLASSES.format(users="carol"))
    made = PriorityClass(name="made", value=700)
    jobs = [{"command": ["true"], "account": "biology", "priority_class": name} for name in ("stated", "made")]

    def give(connection):
        change_classes(connection, lambda table: table.create(made))
        for name in ("stated", "made"):
            write_access(connection, name, AccessList(users=["bob"]))

    def refused(directory: Path) -> list[bool]:
        words = ["--config", directory, "--submit", "-", "--as", "carol"]
        landings = asked(tmp_path, *words, stdin=json.dumps(jobs))["submitted"]
        assert all("may use" in one["error"] or "class" in one["error"] for one in landings if one["error"])
        return [one["error"] is not None for one in landings]

    async with a_cluster(tmp_path, broker.url, live) as cluster:
        await cluster.database.write(give)
        await ranked(cluster)
        found = [refused(directory) for directory in (tmp_path / "live", other, open_to_all)]
    assert found == [[True, True], [False, True], [True, True]]
