import json
import re

import pytest
from simulated import PART

from rankd.cli.main import main

TIMES = ("elapsed_s", "jobs_per_s")
FCFS = ("--procs", "338", "--limit", "exact", "--policy", "fcfs")


def simulate(capsys, *options, status=0):
    assert main(["simulate", str(PART), *options]) == status
    return capsys.readouterr()


def test_the_same_input_gives_the_same_bytes_except_for_the_times(capsys, tmp_path):
    found = []
    for place in range(2):
        starts = tmp_path / f"{place}.csv"
        printed = simulate(capsys, *FCFS, "--jobs", "60", "--json", "-", "--starts", str(starts)).out
        kept = [line for line in printed.splitlines() if not any(f'"{name}"' in line for name in TIMES)]
        found.append((kept, starts.read_bytes()))
    assert found[0] == found[1]
    assert found[0][1].splitlines()[0] == b"job,submit_s,start_s,end_s"
    assert len(found[0][1].splitlines()) == 61


def test_the_statistics_are_those_of_the_published_method(capsys):
    found = json.loads(simulate(capsys, *FCFS, "--json", "-").out)
    assert found["jobs"] + sum(found["left_out"].values()) == 350
    assert round(found["mean_bounded_slowdown"], 3) == 32.401
    assert found.keys() >= {"utilisation", "makespan_s", "p99_wait_s", "by_user", "by_account", "fairness", *TIMES}


PARTITION = "  - name: {}\n    queues: [{{name: root, queues: [{{name: default}}]}}]\n"


@pytest.mark.parametrize(("names", "left_out"), [(["one"], None), (["one", "two", "three"], "two, three")])
def test_partitions_that_are_not_simulated_are_named(capsys, tmp_path, names, left_out):
    (tmp_path / "queues.yaml").write_text("partitions:\n" + "".join(PARTITION.format(name) for name in names))
    told = simulate(capsys, *FCFS, "--jobs", "5", "--config", str(tmp_path)).err
    assert ("only the partition one is simulated" in told) == (left_out is not None)
    assert left_out is None or f"left out: {left_out}" in told


def test_several_configurations_are_compared(capsys, tmp_path):
    for name, order in (("one", "rank"), ("two", "shortest")):
        (tmp_path / name).mkdir()
        text = f'[scheduling]\nbackfill_order = "{order}"\n[priority]\npolicy = "fcfs"\n'
        (tmp_path / name / "rankd.toml").write_text(text)
    options = [word for name in ("one", "two") for word in ("--config", str(tmp_path / name))]
    options += ["--procs", "338", "--limit", "exact", "--jobs", "120"]
    document = json.loads(simulate(capsys, *options, "--json", "-").out)
    assert [one["config"] for one in document["simulations"]] == [str(tmp_path / name) for name in ("one", "two")]
    [compared] = document["comparison"]
    assert compared["winners"]
    printed = simulate(capsys, *options).out
    assert f"who wins with {tmp_path}/two against {tmp_path}/one:" in printed
    assert "who loses with" in printed


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--procs", "0"), "--procs: 0"),
        (("--procs", "8", "--limit", "sometimes"), "--limit: 'sometimes'"),
        (("--procs", "8", "--limit", "nan"), "--limit: 'nan'"),
        (("--procs", "8", "--jobs", "0"), "--jobs: 0"),
        (("--nodes", "nowhere.json"), "nowhere.json can't be read"),
        (
            ("--procs", "8", "--backfill", "strict", "--backfill-order", "shortest"),
            "--backfill-order: it has no effect",
        ),
        ((), "say how large the machine is: --procs N or --nodes FILE"),
    ],
)
def test_wrong_options_are_refused(capsys, options, what):
    assert what in simulate(capsys, *options, status=2).err


def test_a_machine_too_small_for_all_jobs_leaves_them_out(capsys):
    found = json.loads(simulate(capsys, "--procs", "1", "--jobs", "40", "--json", "-").out)
    assert found["left_out"]["too_large"] > 0
    assert found["jobs"] + sum(found["left_out"].values()) == 40


def test_the_pictures_are_drawn_and_their_bytes_are_those_of_the_simulation(capsys, tmp_path):
    found = []
    for name in ("one", "two"):
        simulate(capsys, *FCFS, "--jobs", "60", "--plot", str(tmp_path / name), "--json", "-")
        found.append({path.name: path.read_bytes() for path in (tmp_path / name).glob("*.svg")})
        assert all(path.stat().st_size > 5000 for path in (tmp_path / name).glob("*.png"))
    assert found[0] == found[1]
    assert set(found[0]) == {f"{name}.svg" for name in ("utilisation", "queue", "wait", "slowdown", "share")}


def test_what_sacct_printed_is_simulated_too(capsys, tmp_path):
    trace = tmp_path / "sacct.txt"
    lines = [f"{number}|2026-05-01T12:00:0{number}|0:10|1:00|2|2|ada|lab" for number in range(5)]
    trace.write_text("\n".join(["JobID|Submit|Elapsed|Timelimit|ReqCPUS|AllocCPUS|User|Account", *lines]) + "\n")
    assert main(["simulate", str(trace), "--procs", "4", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["jobs"], found["by_account"][0]["name"], found["makespan_s"]) == (5, "lab", 30.0)


def test_the_speed_is_told_by_parts(capsys):
    told = simulate(capsys, "--procs", "338", "--jobs", "60", "--speed", "--json", "-").err
    assert re.search(r"where the time of a simulation goes: ranking \d+ %, placement \d+ %, the rest \d+ %", told)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ((), "give a trace, or --last 30d"),
        ((str(PART), "--last", "3d"), "give a trace, or --last 30d"),
        ((str(PART), "--procs", "8", "--seed", "-1"), "--seed: -1 is not a number"),
    ],
)
def test_what_is_missing_is_named(capsys, options, what):
    assert main(["simulate", *options]) == 2
    assert what in capsys.readouterr().err
