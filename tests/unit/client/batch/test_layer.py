"""Options below the command line: variables, then directives."""

from pathlib import Path

import pytest
from unit.client.batch.test_script import here, submitted  # noqa: F401 - a fixture

from rankd.cli.jobs.submit import jobs_of
from rankd.cli.main import _parser, main
from rankd.client.batch.fill import blamed
from rankd.client.batch.option import NOT_BELOW, add_job_options
from rankd.core.errors import Refused

TEXT = "#!/bin/sh\n#SBATCH -q low -p gpu --mem=1G -t 10 -c 4\n#RANKD --qos high\n#SBATCH -J late -q lowest\n"


def test_the_command_line_counts_before_variables_and_these_before_the_script(monkeypatch):
    monkeypatch.setenv("RANKD_SUBMIT_TIME", "20")
    monkeypatch.setenv("RANKD_SUBMIT_NAME", "variable")
    job = submitted("-J", "line", "train.sh", text=TEXT)
    assert (job["name"], job["time_limit_s"], job["qos"], job["queue"]) == ("line", 1200, "high", "gpu")


def test_what_is_said_in_another_way_is_replaced():
    assert submitted("--mem-per-cpu", "2G", "train.sh", text=TEXT)["resources"] == {"vcore": 4, "memory": 8 * 2**30}
    job = submitted("train.sh", text="#!/bin/sh\n#SBATCH --gpus=2\n#SBATCH --gpus-per-node=1\n#SBATCH --nice\n")
    assert (job["resources"]["gpu"], job["urgency"]) == (1, 15)
    assert submitted("--urgency", "20", "train.sh", text="#!/bin/sh\n#SBATCH --nice\n")["urgency"] == 20


@pytest.mark.parametrize(
    ("line", "script", "variables", "message"),
    [
        ("--mem=1G --mem-per-cpu=1G", "", {}, "--mem and --mem-per-cpu exclude each other; give one of them"),
        ("--mem-per-gpu=1G --mem-per-cpu=1G -G1", "", {}, "--mem-per-cpu and --mem-per-gpu exclude each other"),
        ("-c 2 --cpus-per-gpu=2 -G1", "", {}, "--cpus-per-task and --cpus-per-gpu exclude each other"),
        (
            "",
            "#SBATCH --mem=1G\n#SBATCH --mem-per-cpu=2G",
            {},
            "line 3: --mem-per-cpu and --mem of line 2 exclude each",
        ),
        ("", "#RANKD --mem=1G --mem-per-cpu=2G", {}, "train.sh line 2: --mem and --mem-per-cpu exclude each other"),
        (
            "",
            "",
            {"SBATCH_MEM_PER_CPU": "1", "SBATCH_MEM_PER_NODE": "1"},
            "SBATCH_MEM_PER_NODE and SBATCH_MEM_PER_CPU ex",
        ),
        (
            "",
            "",
            {"RANKD_SUBMIT_MEM": "1", "RANKD_SUBMIT_MEM_PER_GPU": "1"},
            "RANKD_SUBMIT_MEM and RANKD_SUBMIT_MEM_PER",
        ),
    ],
)
def test_memory_that_one_source_gives_in_two_ways_is_refused(monkeypatch, line, script, variables, message):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Refused) as refused:
        submitted(*line.split(), "train.sh", text=f"#!/bin/sh\n{script}\n")
    assert message in refused.value.message


def test_memory_of_the_first_source_counts_alone(monkeypatch):
    text = "#!/bin/sh\n#SBATCH --mem=1G\n#RANKD --mem-per-cpu 2G -c 2\n"
    assert submitted("train.sh", text=text)["resources"]["memory"] == 4 * 2**30
    monkeypatch.setenv("SBATCH_MEM_PER_NODE", "3G")
    assert submitted("train.sh", text=text)["resources"]["memory"] == "3Gi"
    monkeypatch.setenv("RANKD_SUBMIT_MEM_PER_CPU", "4G")
    assert submitted("train.sh", text=text)["resources"]["memory"] == 8 * 2**30
    assert submitted("--mem", "5G", "train.sh", text=text)["resources"]["memory"] == "5Gi"


def test_gpus_of_the_command_line_replace_those_of_the_script_in_any_form():
    text = "#!/bin/sh\n#SBATCH --gres=gpu:1,licence:2\n"
    assert submitted("--gpus", "2", "train.sh", text=text)["resources"] == {"vcore": 1, "licence": 2, "gpu": 2}
    text = "#!/bin/sh\n#SBATCH --gpus=2\n"
    assert submitted("--gres", "gpu:a100", "train.sh", text=text)["resources"] == {"vcore": 1, "gpu:a100": 1}


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("--gres=gpu", {"gpu": 1}),
        ("--gres=gpu:a100", {"gpu:a100": 1}),
        ("--gres=gpu:a100:2,gpu:v100", {"gpu:a100": 2, "gpu:v100": 1}),
        ("-G a100:2", {"gpu:a100": 2}),
        ("--gpus a100:2", {"gpu:a100": 2}),
        ("--gpus-per-node=2", {"gpu": 2}),
        ("-n 1 --gpus-per-task=a100:2", {"gpu:a100": 2}),
    ],
)
def test_gpus_in_lines_of_sbatch(line, asked):
    assert submitted("train.sh", text=f"#!/bin/sh\n#SBATCH {line}\n")["resources"] == {"vcore": 1, **asked}


def test_variables_count_for_commands_too(monkeypatch):
    monkeypatch.setenv("RANKD_SUBMIT_QOS", "high")
    monkeypatch.setenv("RANKD_SUBMIT_HOLD", "yes")
    monkeypatch.setenv("RANKD_SUBMIT_EXCLUSIVE", "0")
    monkeypatch.setenv("RANKD_SUBMIT_REQUEUE", "0")
    job = submitted("--", "true")
    assert (job["qos"], job["held"], job["requeue"], "exclusive" in job) == ("high", True, False, False)


def test_variables_of_sbatch_count_between_the_command_line_and_the_script(monkeypatch):
    for name, value in {"SBATCH_TIMELIMIT": "20", "SBATCH_JOB_NAME": "sbatchs", "SBATCH_MEM_PER_CPU": "2G"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SBATCH_QOS", "sbatchs")
    monkeypatch.setenv("RANKD_SUBMIT_QOS", "ours")
    job = submitted("-J", "line", "train.sh", text=TEXT)
    assert (job["name"], job["time_limit_s"], job["qos"], job["queue"]) == ("line", 1200, "ours", "gpu")
    assert job["resources"] == {"vcore": 4, "memory": 8 * 2**30}, "in place of the script's --mem"
    monkeypatch.setenv("SBATCH_PARTITION", "long")
    assert submitted("--", "true")["queue"] == "long"


def test_a_variable_of_sbatch_that_cannot_be_honoured_is_named(monkeypatch, capsys):
    monkeypatch.setenv("SBATCH_RESERVATION", "maintenance")
    monkeypatch.setenv("SBATCH_HINT", "nomultithread")
    submitted("--", "true")
    told = capsys.readouterr().err
    assert "rankd: SBATCH_RESERVATION has no effect: rankd has no reservations of nodes by name yet" in told
    assert "rankd: SBATCH_HINT has no effect: " in told


@pytest.mark.parametrize(("name", "value"), [("TIMELIMIT", "soon"), ("GRES", "gpu:a100:")])
def test_a_wrong_value_of_a_variable_of_sbatch_names_it(monkeypatch, name, value):
    monkeypatch.setenv(f"SBATCH_{name}", value)
    with pytest.raises(Refused, match=f"SBATCH_{name}"):
        submitted("--", "true")


def test_a_value_that_rankd_refuses_is_named_by_its_variable(monkeypatch):
    monkeypatch.setenv("SBATCH_ACCOUNT", "fysics")
    arguments = _parser("submit").parse_args(["submit", "--", "true"])
    jobs_of(arguments)
    error = blamed(Refused("unknown_account", "unknown account 'fysics'", "account"), arguments.sources)
    assert error.message == "SBATCH_ACCOUNT: unknown account 'fysics'"
    assert blamed(Refused("bad_cwd", "not a path", "cwd"), arguments.sources).message == "not a path"


def test_lists_of_all_sources_are_joined(monkeypatch):
    monkeypatch.setenv("RANKD_SUBMIT_EXPORT_ENV", "B=2")
    text = "#!/bin/sh\n#RANKD --export NONE --export-env A=1 --export-env B=1\n"
    assert submitted("--export-env", "C=3", "train.sh", text=text)["env"] == {"A": "1", "B": "2", "C": "3"}


def test_a_variable_that_is_no_option_is_told_and_does_no_harm(monkeypatch, capsys):
    monkeypatch.setenv("RANKD_SUBMIT_QUEU", "x")
    monkeypatch.setenv("RANKD_SUBMIT_KEY", "x")
    assert submitted("--", "true")["key"] != "x"
    told = capsys.readouterr().err
    assert "RANKD_SUBMIT_QUEU has no effect" in told
    assert "RANKD_SUBMIT_KEY has no effect" in told


@pytest.mark.parametrize(("name", "value"), [("NTASKS", "x"), ("HOLD", "perhaps"), ("MEM", "lots")])
def test_a_wrong_value_of_a_variable_names_it(monkeypatch, name, value):
    monkeypatch.setenv(f"RANKD_SUBMIT_{name}", value)
    with pytest.raises(Refused, match=f"RANKD_SUBMIT_{name}|--{name.lower()}"):
        submitted("--", "true")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("#SBATCH -F nodes", "line 2: #SBATCH --nodefile: .*--ignore-unknown leaves it out"),
        ("#SBATCH --tiem=5", "line 2: #SBATCH: sbatch has no option --tiem"),
        ("#SBATCH --mem=lots", "train.sh line 2: 'lots' is not an amount of memory"),
        ("#SBATCH -n few", "line 2: .*'few' is not a whole number"),
        ("#SBATCH --gres=gpu:a100:", "train.sh line 2: .*write gpu, gpu:2, gpu:a100 or gpu:a100:2"),
        ("#SBATCH --gpus=a100", "line 2: .*write 2, or MODEL:2 such as a100:2"),
        ("#SBATCH --gres=fpga:u250:4", "train.sh line 2: .*types of a resource are labels"),
        ("#SBATCH -d afterok:1?afterok:2", "train.sh line 2: .*alternatives"),
        ("#SBATCH -b whenever", "train.sh line 2: 'whenever' is not a time"),
        ("#RANKD --no-such", "line 2: there is no option --no-such"),
        ("#RANKD --tiem 5", "line 2: there is no option --tiem .did you mean --time"),
        ("#RANKD -q gpu", None),
        ("#RANKD --nats nats://elsewhere", "line 2: there is no option --nats"),
        ("#RANKD --admin", "line 2: there is no option --admin"),
        ("#RANKD job.sh", "line 2: takes no argument 'job.sh'"),
        ("#RANKD --key k", "line 2: --key is for the command line only"),
        ("#RANKD --ignore-unknown", "line 2: --ignore-unknown is for the command line only"),
        ("#RANKD -J 'x", "line 2: a quote is not closed"),
    ],
)
def test_an_error_names_its_line(line, why):
    if why is None:
        assert submitted("train.sh", text=f"#!/bin/sh\n{line}\n")["queue"] == "gpu"
        return
    with pytest.raises(Refused, match=why):
        submitted("train.sh", text=f"#!/bin/sh\n{line}\n")


def test_what_has_no_equivalent_can_be_left_out(capsys):
    text = "#!/bin/sh\n#SBATCH -F n7 -J kept\n#SBATCH --partitoin=a -q high\n#SBATCH hetjob\n#SBATCH --hint=x\n"
    job = submitted("--ignore-unknown", "train.sh", text=text)
    assert (job["name"], job["qos"]) == ("kept", "high")
    told = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in told] == ["line 2", "line 3", "line 4", "line 5"]
    assert told[0].startswith("rankd: line 2: --nodefile is left out: rankd reads no file")
    assert (
        told[1] == "rankd: line 3: an option is left out: sbatch has no option --partitoin; did you mean --partition?"
    )
    assert told[2].startswith("rankd: line 4: the line is left out: 'hetjob'")


def test_paths_of_lines_that_a_shell_would_expand_are_warned_of(capsys):
    text = "#!/bin/sh\n#SBATCH -o $HOME/x -e a/~b\n#SBATCH --input=~/in\n"
    job = submitted("train.sh", text=text)
    assert job["stdout"].endswith("$HOME/x")
    assert capsys.readouterr().err.splitlines() == [
        f"rankd: train.sh line {place}: ~ and $ are not expanded here; write the whole path"
        for place in ("3: --input ~/in", "2: --output $HOME/x")
    ]


def test_all_wrong_lines_are_named_at_once():
    text = (
        "#!/bin/sh\n#SBATCH --tiem=5\n#RANKD --no-such\n#SBATCH --gres=gpu:x:\n#SBATCH --mem-per-gpu=1G\n"
        "#SBATCH --reservation=r\n#SBATCH -b whenever\n"
    )
    with pytest.raises(ExceptionGroup) as caught:
        submitted("train.sh", text=text)
    places = [str(error).split(": ")[0] for error in caught.value.exceptions]
    assert places == ["line 2", "line 3", "line 6", "train.sh line 4", "train.sh line 7"]


def test_all_wrong_lines_are_printed_each_on_its_line(capsys):
    Path("train.sh").write_text("#!/bin/sh\n#SBATCH --tiem=5\n#SBATCH -F nodes\n")
    assert main(["submit", "train.sh"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == (
        "rankd: line 2: #SBATCH: sbatch has no option --tiem; did you mean --time?; --ignore-unknown leaves it out"
    )
    assert second.startswith("rankd: line 3: #SBATCH --nodefile: ")


def test_the_options_that_only_a_command_line_has_exist():
    import argparse

    parser = argparse.ArgumentParser()
    add_job_options(parser)
    assert set(NOT_BELOW) <= vars(parser.parse_args([])).keys()
