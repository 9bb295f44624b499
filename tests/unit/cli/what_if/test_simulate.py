import json

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
        ((), "one of the arguments --procs --nodes is required"),
    ],
)
def test_wrong_options_are_refused(capsys, options, what):
    assert what in simulate(capsys, *options, status=2).err


def test_a_machine_too_small_for_all_jobs_leaves_them_out(capsys):
    found = json.loads(simulate(capsys, "--procs", "1", "--jobs", "40", "--json", "-").out)
    assert found["left_out"]["too_large"] > 0
    assert found["jobs"] + sum(found["left_out"].values()) == 40
