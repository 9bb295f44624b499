import json

import msgspec
import pytest

from rankd.cli.jobs.submit import jobs_of, with_keys
from rankd.cli.main import _parser, main
from rankd.client.batch.request import job_of, of_step, parse_memory
from rankd.core.errors import Refused
from rankd.core.model.job import JobRequest
from rankd.wire.request_size import check_request
from rankd.wire.session import JobAttach, Step

NOW = 1_700_000_000.0
ENVIRONMENT = {"PATH": "/bin", "SECRET": "s"}


def parsed(line):
    return _parser("submit").parse_args(["submit", *line.split()])


def job(line):
    made = job_of(parsed(line), ENVIRONMENT, NOW)
    assert msgspec.convert(made, JobRequest), "the daemon reads what is sent"
    return made


def test_a_step_gets_the_environment_around_it_without_credentials_and_within_the_limits_of_a_request():
    given = {"A": "1", "LONG": "x" * 65_537, "FITS": "x" * 65_536, "RANKD_CREDS": "c", "NATS": "nats://ann:pw@h"}
    step = Step(command=["true"], env=of_step(given))
    assert set(step.env) == {"A", "FITS"}
    check_request(JobAttach(id=1, step=step))


def test_what_is_not_asked_for_is_not_sent():
    assert job("sleep 5") == job("-- sleep 5") == {"command": ["sleep", "5"]}


def test_the_commands_own_flags_are_its_own():
    assert job("-c 2 -- tar -c -N 3 --help")["command"] == ["tar", "-c", "-N", "3", "--help"]
    assert job("-c 2 tar -c -N 3")["command"] == ["tar", "-c", "-N", "3"]


def test_words_go_where_they_belong():
    made = job(
        "-J n -A acc -q root.a -p part --qos high --class c --application app --comment hm -C gpu=a100 -a 0-9"
        " -i in -o out -e err -- true"
    )
    assert made == {
        "command": ["true"], "name": "n", "account": "acc", "queue": "root.a", "partition": "part", "qos": "high",
        "priority_class": "c", "application": "app", "comment": "hm", "constraints": "gpu=a100", "array": "0-9",
        "stdin": "in", "stdout": "out", "stderr": "err",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("-c 4", {"resources": {"vcore": 4}}),
        ("-c 500m", {"resources": {"vcore": "500m"}}),
        ("-c 0.5", {"resources": {"vcore": 0.5}}),
        ("-n 8", {"resources": {"vcore": 8}}),
        ("-N 3 -n 8 -c 2", {"nodes": 3, "resources": {"vcore": 6}}),
        ("-N 2-4", {"nodes": 4, "min_nodes": 2}),
        ("-w n[1-2] -n 4", {"nodes": 2, "resources": {"vcore": 2}, "constraints": "rankd/node in (n1,n2)"}),
        ("-w n1 -N 1", {"nodes": 1, "constraints": "rankd/node in (n1)"}),
        ("-x n3 -C gpu", {"constraints": "gpu,rankd/node notin (n3)"}),
        ("--mem 4G", {"resources": {"vcore": 1, "memory": "4Gi"}}),
        ("-c 2 --mem-per-cpu 512", {"resources": {"vcore": 2, "memory": 2**30}}),
        ("-G 2 --cpus-per-gpu 4 --mem-per-cpu 512", {"resources": {"vcore": 8, "memory": 2**32, "gpu": 2}}),
        ("--gres gpu:2,licence", {"resources": {"vcore": 1, "gpu": 2, "licence": 1}}),
        ("-N 2 -G 8", {"nodes": 2, "resources": {"vcore": 1, "gpu": 4}}),
        ("--gpus a100:2", {"resources": {"vcore": 1, "gpu:a100": 2}}),
        ("-G a100:2,v100:4 -N 2", {"nodes": 2, "resources": {"vcore": 1, "gpu:a100": 1, "gpu:v100": 2}}),
        ("--gres gpu:a100:2", {"resources": {"vcore": 1, "gpu:a100": 2}}),
        ("--gpus-per-node v100:1 --cpus-per-gpu 4", {"resources": {"vcore": 4, "gpu:v100": 1}}),
        ("--gres=gpu:a100", {"resources": {"vcore": 1, "gpu:a100": 1}}),
        ("--gres=gpu", {"resources": {"vcore": 1, "gpu": 1}}),
        ("--gres=gpu:a100,gpu:v100:2", {"resources": {"vcore": 1, "gpu:a100": 1, "gpu:v100": 2}}),
        ("--gres none", {}),
        ("--gpus-per-task 2", {"resources": {"vcore": 1, "gpu": 2}}),
        ("-n 1 --gpus-per-task a100:2", {"resources": {"vcore": 1, "gpu:a100": 2}}),
        ("--gpus-per-node 4 -N 2", {"nodes": 2, "resources": {"vcore": 1, "gpu": 4}}),
        ("-N 2 --ntasks-per-node 4 -c 2", {"nodes": 2, "resources": {"vcore": 8}}),
        ("-n 10 --ntasks-per-node 4", {"nodes": 3, "resources": {"vcore": 4}}),
        ("-N 2 --ntasks-per-node 2 --gpus-per-task 1", {"nodes": 2, "resources": {"vcore": 2, "gpu": 2}}),
        ("-G 2 --mem-per-gpu 1G --cpus-per-gpu 4", {"resources": {"vcore": 8, "memory": 2**31, "gpu": 2}}),
        ("--nice 250", {"urgency": 13}),
        ("--nice 250 --urgency 9", {"urgency": 9}),
    ],
)
def test_amounts_are_per_node(flags, expected):
    made = job(f"{flags} -- true")
    made.pop("command")
    assert made == expected


def test_conditions_and_times():
    made = job("-t 1:00:00 -b now+60 -d afterok:1:2,after:3 -H --no-requeue --exclusive --urgency expedite -- true")
    assert made["time_limit_s"] == 3600
    assert made["begin_at"] == NOW + 60
    assert made["depends_on"] == [
        {"type": "afterok", "job": 1}, {"type": "afterok", "job": 2}, {"type": "after", "job": 3},
    ]  # fmt: skip
    assert (made["held"], made["requeue"], made["exclusive"], made["urgency"]) == (True, False, True, 31)


def test_what_lets_someone_in_and_what_an_enclosing_job_is_do_not_travel():
    secrets = dict.fromkeys(("RANKD_CREDS", "RANKD_TOKEN", "RANKD_NATS", "RANKD_TLS_KEY", "SLURM_NTASKS"), "x")
    given = {"A": "1", "RANKD_ARRAY_TASK_ID": "3", "LATIN": "\udce4", "U": "ä", **secrets}
    made = job_of(parsed("--export ALL -- env"), given, NOW)
    assert made["env"] == {"A": "1", "U": "ä"}


@pytest.mark.parametrize(
    ("flags", "env"),
    [
        ("", None),
        ("--export NONE", None),
        ("--export ALL", ENVIRONMENT),
        ("--export PATH,A=1,GONE", {"PATH": "/bin", "A": "1"}),
        ("--export-env A=1,2 --export-env B=", {"A": "1,2", "B": ""}),
        ("--export ALL,PATH=/mine", {"PATH": "/mine", "SECRET": "s"}),
    ],
)
def test_only_what_is_exported_leaves_the_environment(flags, env):
    assert job(f"{flags} -- env").get("env") == env


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("-c 2", "no command"),
        ("-N 0 -- true", "number of nodes"),
        ("-N 4-2 -- true", "number of nodes"),
        ("-N x -- true", "number of nodes"),
        ("-c two -- true", "number of cores"),
        ("-n 2 -c 500m -- true", "whole cores"),
        ("--mem lots -- true", "amount of memory"),
        ("-N 2 -G 3 -- true", "evenly"),
        ("--gres gpu:-1 -- true", "NAME:COUNT"),
        ("--urgency 32 -- true", "not an urgency"),
        ("-d afterok -- true", "names no job"),
        ("-d afterok:1?afterok:2 -- true", "alternatives"),
        ("-d afterok:1?singleton -- true", "alternatives"),
        ("-d after:1+5 -- true", "a delay after the start"),
        ("-d aftercorr -- true", "names no job"),
        ("-t 0 -- true", "larger than 0"),
        ("-n 0 -- true", "not a number of tasks"),
        ("--mem-per-gpu 1G -- true", "needs a number of GPUs"),
        ("--nice soon -- true", "whole number"),
    ],
)
def test_what_can_not_be_read_is_refused_as_usage(line, message):
    with pytest.raises(Refused, match=message) as caught:
        job(line)
    assert caught.value.code == "usage"


@pytest.mark.parametrize(
    ("given", "cancels"),
    [("", True), (" yes", True), ("=yes", True), (" no", False), ("=no", False), (" -d afterok:1", True)],
)
def test_an_unmet_dependency_cancels_if_the_option_says_so_or_has_no_value(given, cancels):
    assert job(f"--kill-on-invalid-dep{given} -- true")["cancel_if_unmet"] is cancels
    assert "cancel_if_unmet" not in job("-d afterok:1 -- true")


@pytest.mark.parametrize("word", ["maybe -- true", "train.sh"])
def test_a_word_that_is_no_value_of_the_option_is_named(word, capsys):
    assert main(["submit", "--print-request", "--kill-on-invalid-dep", *word.split()]) == 2
    assert f"--kill-on-invalid-dep: '{word.split()[0]}' is not a choice; write yes or no" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "quantity"), [("1", "1Mi"), ("2K", "2Ki"), ("3MB", "3Mi"), ("4gib", "4Gi"), ("5T", "5Ti")]
)
def test_memory_is_slurms_binary(text, quantity):
    assert parse_memory(text) == quantity


def test_every_copy_has_a_key_of_its_own():
    jobs = jobs_of(parsed("--count 3 -- true"))
    assert len({job["key"] for job in jobs}) == 3


def test_the_same_key_gives_the_same_keys_again():
    assert jobs_of(parsed("--key k -- true")) == jobs_of(parsed("--key k -- true"))
    assert [job["key"] for job in jobs_of(parsed("--key k --count 2 -- true"))] == ["k-0", "k-1"]


def test_keys_in_a_file_are_kept():
    assert [job["key"] for job in with_keys([{"key": "a"}, {"key": "b"}], None)] == ["a", "b"]
    assert with_keys([{"key": "a"}], None) == [{"key": "a"}]
    copies = with_keys([{"key": "a"}, {"key": "a"}], None)
    assert copies[0]["key"] != copies[1]["key"]


@pytest.mark.parametrize("text", ['{"command":["a"]}', '[{"command":["a"]}]', '{"jobs":[{"command":["a"]}]}'])
def test_a_file_holds_a_job_or_a_list(tmp_path, text):
    (tmp_path / "jobs.json").write_text(text)
    (made,) = jobs_of(parsed(f"--file {tmp_path}/jobs.json"))
    assert made["command"] == ["a"]
    assert made.keys() == {"command", "key"}


@pytest.mark.parametrize("text", ["", "[", "[]", "[1]", '"job"', "\xff"])
def test_a_bad_file_is_a_bad_document(tmp_path, text):
    (tmp_path / "jobs.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(Refused) as caught:
        jobs_of(parsed(f"--file {tmp_path}/jobs.json"))
    assert caught.value.code == "bad_request"


@pytest.mark.parametrize(("line", "message"), [("--count 0 -- true", "at least one"), ("--file x -- true", "not both")])
def test_contradictions_are_refused(line, message):
    with pytest.raises(Refused, match=message):
        jobs_of(parsed(line))


def test_a_job_starts_where_it_was_submitted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert jobs_of(parsed("-- true"))[0]["cwd"] == str(tmp_path)
    assert jobs_of(parsed("-D sub -- true"))[0]["cwd"] == str(tmp_path / "sub")


def test_the_printed_request_keeps_the_user_that_was_named(capsys):
    assert main(["submit", "--print-request", "--user", "bob", "--", "true"]) == 0
    assert json.loads(capsys.readouterr().out)["user"] == "bob"
    assert main(["submit", "--print-request", "--", "true"]) == 0
    assert "user" not in json.loads(capsys.readouterr().out)
