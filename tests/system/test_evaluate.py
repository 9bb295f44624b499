"""The commands that decide on documents, as users run them: what comes out, where, and with which exit status."""

import json
import os
import subprocess
import sys

import pytest
from watch import PATIENCE_S

NOW = 1_700_000_000.0


def rankd(*words, stdin=""):
    """Run the command; nothing of this machine's rankd is to be found."""
    hidden = {name for name in os.environ if name.startswith("RANKD_")}
    return subprocess.run(
        [sys.executable, "-m", "rankd", *map(str, words)],
        input=stdin,
        text=True,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
        env={name: value for name, value in os.environ.items() if name not in hidden},
    )


def state(**sections):
    return json.dumps({"now": NOW, "priority": {"policy": "class"}, **sections})


def jobs(**values):
    return [{"id": name, "class_value": value} for name, value in values.items()]


# --- evaluate -----------------------------------------------------------------------------------------------


def test_a_document_on_standard_input_gives_its_result_indented():
    done = rankd("evaluate", "-", stdin=state(jobs=jobs(a=1, b=2)))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["ranking"] == ["b", "a"]
    assert done.stdout.startswith('{\n  "rejected": []')


def test_json_is_one_line(tmp_path):
    file = tmp_path / "state.json"
    file.write_text(state(jobs=jobs(a=1)))
    done = rankd("evaluate", file, "--json")
    assert done.returncode == 0
    assert done.stdout.count("\n") == 1
    assert list(json.loads(done.stdout)) == [
        "rejected", "jobs", "queues", "queue_order", "application_order", "node_order", "associations", "ranking",
        "allocations", "reservations", "warnings",
    ]  # fmt: skip


def test_a_bad_document_has_a_line_per_error_and_no_output():
    done = rankd("evaluate", "-", stdin=state(jobs=[{"id": 1, "nods": 2}, {"id": 2, "nodes": "x"}]))
    assert (done.returncode, done.stdout) == (2, "")
    assert [line.split(": ")[0] for line in done.stderr.splitlines()] == ["$.jobs[0].nods", "$.jobs[1].nodes"]


@pytest.mark.parametrize("words", [(), ("-", "--lines", "-"), ("/nowhere.json",), ("--lines", "-", "--diff", "x")])
def test_how_it_is_used_wrongly_is_said(words):
    done = rankd("evaluate", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("rankd: ")


def test_lines_are_answered_in_order_and_a_bad_one_has_its_errors_in_its_place():
    lines = [state(jobs=jobs(a=1)), "{", "", '{"now": 1, "foo": 2}', state(jobs=jobs(b=1))]
    done = rankd("evaluate", "--lines", "-", stdin="\n".join(lines) + "\n")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert [answer.get("ranking") for answer in answers] == [["a"], None, None, None, ["b"]]
    assert [[error["path"] for error in answer.get("errors", [])] for answer in answers[1:4]] == [
        ["$"],
        ["$"],
        ["$.foo"],
    ]
    assert set(answers[1]["errors"][0]) == {"path", "message"}


def test_a_configuration_gives_the_sections_that_a_document_lacks(tmp_path):
    (tmp_path / "rankd.toml").write_text(
        'default_qos = "some"\n[priority.weights]\nqos = 100\n[[qos]]\nname = "some"\npriority = 1\n'
        '[[qos]]\nname = "most"\npriority = 4\n'
    )
    (tmp_path / "queues.yaml").write_text("partitions: [{name: default, queues: [{name: root, queues: [{name: q}]}]}]")
    (tmp_path / "accounts.yaml").write_text("accounts: [{name: lab, users: [{name: ann}]}]")
    (tmp_path / "priorityclasses.yaml").write_text(
        "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: c}, value: 7}"
    )
    job = {"id": 1, "queue": "root.q", "user": "ann", "account": "lab", "priority_class": "c"}
    document = json.dumps({"now": NOW, "jobs": [job, {**job, "id": 2, "qos": "most"}]})
    result = json.loads(rankd("evaluate", "-", "--config", tmp_path, stdin=document).stdout)
    assert [(row["id"], row["priority"]) for row in result["jobs"]] == [(1, 7 + 25), (2, 7 + 100)]
    own = json.dumps(
        {**json.loads(document), "priority_classes": [{"name": "c", "value": 9}], "qos": [{"name": "most"}]}
    )
    result = json.loads(rankd("evaluate", "-", "--config", tmp_path, stdin=own).stdout)
    assert [row["priority"] for row in result["jobs"]] == [9, 9]


def test_diff_prints_whose_rank_changes_and_by_how_much(tmp_path):
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    before.write_text(state(jobs=jobs(a=3, b=2, c=1)))
    after.write_text(state(jobs=jobs(a=0, b=2, c=1)))
    done = rankd("evaluate", before, "--diff", after)
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["JOB", "RANK", "NOW", "MOVES", "PRIORITY", "NOW"],
        ["b", "2", "1", "up", "1", "2", "2"],
        ["c", "3", "2", "up", "1", "1", "1"],
        ["a", "1", "3", "down", "2", "3", "0"],
    ]
    found = json.loads(rankd("evaluate", before, "--diff", after, "--json").stdout)
    assert [(row["job"], row["change"]) for row in found] == [("b", -1), ("c", -1), ("a", 2)]
    after.write_text("{")
    assert rankd("evaluate", before, "--diff", after).returncode == 2


# --- class check --------------------------------------------------------------------------------------------


def test_class_check_judges_an_operation():
    document = {"existing": [{"name": "a", "value": 1}], "operation": "create", "class": {"name": "a", "value": 2}}
    done = rankd("class", "check", "-", stdin=json.dumps(document))
    answer = json.loads(done.stdout)
    assert done.returncode == 0
    assert (answer["accepted"], answer["code"]) == (False, "class_exists")
    assert [given["name"] for given in answer["classes"]] == ["a", "system-cluster-critical", "system-node-critical"]


def test_class_check_takes_a_document_per_line():
    lines = [
        '{"operation": "delete", "name": "a", "existing": [{"name": "a", "value": 1}]}',
        '{"operation": "destroy"}',
        '{"operation": "create", "class": {"name": "b", "value": 1}, "privileged": true}',
        "{",
    ]
    done = rankd("class", "check", "--lines", "-", stdin="\n".join(lines))
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer.get("accepted") for answer in answers] == [True, None, True, None]
    assert [error["path"] for answer in (answers[1], answers[3]) for error in answer["errors"]] == ["$.operation", "$"]


def test_a_document_that_asks_for_nothing_is_a_bad_one():
    done = rankd("class", "check", "-", stdin="[]")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("$: ")


# --- config check -------------------------------------------------------------------------------------------


def test_config_check_prints_everything_that_is_wrong_and_where(tmp_path):
    (tmp_path / "rankd.toml").write_text("[priority.weights]\nagee = 1\n")
    (tmp_path / "queues.yaml").write_text(
        "partitions:\n  - name: default\n    queues:\n      - name: root\n        foo: 1\n"
    )
    (tmp_path / "accounts.yaml").write_text("accounts: [{name: a, parent: b}]")
    done = rankd("config", "check", tmp_path)
    assert done.returncode == 2
    places = [line.split(": ")[0] for line in done.stdout.splitlines()]
    assert places == ["rankd.toml:2", "queues.yaml:5", "accounts.yaml", str(tmp_path)]


def test_a_good_configuration_is_said_to_be_good(tmp_path):
    done = rankd("config", "check", tmp_path, "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"valid": True, "errors": [], "warnings": []})


def test_a_weight_that_no_plugin_can_be_built_for_is_found(tmp_path):
    (tmp_path / "rankd.toml").write_text('[priority.weights]\n"age.x" = 1\n')
    assert rankd("config", "check", tmp_path).returncode == 2


def test_config_check_takes_texts_of_queues_yaml():
    texts = [
        "",
        "partitions: [{name: default, queues: [{name: root, quues: []}]}]",
        "partitions: [{queues: [{name: a, properties: {priority.offset: x}}]}]",
    ]
    lines = [*(json.dumps({"queues_yaml": text}) for text in texts), "{}", '{"queues_yaml": 1}']
    done = rankd("config", "check", "--lines", "-", stdin="\n".join(lines))
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer.get("valid") for answer in answers] == [True, False, True, None, None]
    assert [(error["path"], error["line"]) for error in answers[1]["errors"]] == [("partitions[0].queues[0].quues", 1)]
    assert [warning["code"] for warning in answers[2]["warnings"]] == ["bad_property_value"]
    assert [answer["errors"][0]["path"] for answer in answers[3:]] == ["$", "$"]
