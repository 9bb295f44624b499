import json
import re
import sys

import pytest
from simulated import PART

from rankd.cli.main import main
from rankd.cli.what_if import simulate_input, simulate_progress

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


def with_partitions(directory, *names):
    """Options for a configuration with these partitions."""
    (directory / "queues.yaml").write_text("partitions:\n" + "".join(PARTITION.format(name) for name in names))
    return "--config", str(directory)


@pytest.mark.parametrize(("names", "left_out"), [(["one"], None), (["one", "two", "three"], "two, three")])
def test_partitions_that_a_pool_leaves_out_are_named(capsys, tmp_path, names, left_out):
    told = simulate(capsys, *FCFS, "--jobs", "5", *with_partitions(tmp_path, *names)).err
    assert ("only the partition one is simulated" in told) == (left_out is not None)
    assert left_out is None or f"left out: {left_out}. --nodes FILE" in told


SACCT = "JobID|Submit|Elapsed|Timelimit|ReqCPUS|AllocCPUS|User|Account|Partition|ReqTRES"
NODES = '{"n[1-2]": {"vcore": 4}, "g1": {"vcore": 4, "gpu:a100": 2, "partition": "gpu"}}'


@pytest.fixture
def two_partitions(tmp_path):
    """A trace of two partitions and the nodes of both, as words of the command."""
    rows = [("cpu", "cpu=8"), ("gpu", "cpu=1,gres/gpu=2"), ("gpu", "cpu=1,gres/gpu:a100=1"), ("cpu", "cpu=4,mem=1G")]
    lines = [
        f"{number}|2026-05-01T12:00:0{number}|0:10|1:00|{tres[4]}|{tres[4]}|ada|lab|{partition}|{tres}"
        for number, (partition, tres) in enumerate(rows)
    ]
    (tmp_path / "trace").write_text("\n".join([SACCT, *lines]) + "\n")
    (tmp_path / "nodes").write_text(NODES)
    return str(tmp_path / "trace"), "--nodes", str(tmp_path / "nodes"), "--policy", "fcfs"


def starts_of(words, capsys):
    assert main(["simulate", *words, "--starts", "-", "--json", "-"]) == 0
    printed = capsys.readouterr()
    rows = [line.split(",") for line in printed.out.splitlines() if re.fullmatch(r"[0-9]+,.*", line)]
    found = json.loads(printed.out[printed.out.index("{") :])
    return [float(start) - float(submit) for _, submit, start, _ in rows], found, printed.err


@pytest.mark.parametrize("is_configured", [False, True])
def test_several_partitions_with_gpus_are_simulated(capsys, tmp_path, two_partitions, is_configured):
    config = with_partitions(tmp_path, "cpu", "gpu") if is_configured else ("--map", "cpu=default")
    waits, found, told = starts_of([*two_partitions, *config], capsys)
    assert waits == [0.0, 0.0, 9.0, 7.0]
    assert found["left_out"] == {"no_run_time": 0, "no_limit": 0, "no_size": 0, "too_large": 0}
    assert [(one["name"], one["jobs"], one["processors"]) for one in found["by_partition"]] == [
        ("cpu" if is_configured else "default", 2, 8),
        ("gpu", 2, 4),
    ]
    assert "1 job asked for memory, which no node has here" in told
    assert main(["simulate", *two_partitions, *config]) == 0
    assert re.search(r"BY PARTITION +JOBS +UTILISATION", capsys.readouterr().out)


def test_jobs_of_a_partition_go_where_the_map_says(capsys, tmp_path, two_partitions):
    _, found, told = starts_of([*two_partitions, *with_partitions(tmp_path, "cpu", "gpu"), "--map", "GPU=cpu"], capsys)
    assert found["left_out"]["too_large"] == 2, "the partition cpu has no GPUs"
    assert "partitions without nodes" not in told


def test_partitions_without_nodes_are_named(capsys, tmp_path, two_partitions):
    config = with_partitions(tmp_path, "cpu", "gpu", "big")
    assert "partitions without nodes: big" in starts_of([*two_partitions, *config], capsys)[2]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--map", "gpu"), "--map: 'gpu' is not a route; write QUEUE=PARTITION"),
        (("--map", "gpu=gpu", "--map", "gpu=default"), "--map: 'gpu' goes to two places"),
        (("--map", "gpu=fast"), "there is no partition 'fast'; there are default, gpu"),
        (("--map", "p2=gpu"), "no job of the trace has the queue or partition 'p2'; there are cpu, gpu"),
        (("--from", "5", "--until", "3"), "--from 5 is not before --until 3"),
        (("--from", "nan"), "--from: 'nan' is neither a number of seconds nor a time such as"),
        (("--until", "9999-12-31T23:59:59"), "--until: '9999-12-31T23:59:59' is neither"),
        (("--until", "tomorrow"), "--until: 'tomorrow' is neither"),
        (("--from", "2026-05-01T12:00", "--until", "2026-05-01"), "--from 2026-05-01T12:00 is not before"),
        (("--plot", "/dev/null/x"), "--plot: /dev/null/x can't be written: Not a directory"),
        (("--json", "no/where.json"), "--json: no/where.json can't be written: there is no directory"),
        (("--starts", "."), "--starts: . can't be written: it is a directory"),
    ],
)
def test_what_can_not_work_is_refused_before_anything_is_simulated(capsys, two_partitions, options, what):
    assert main(["simulate", *two_partitions, *options]) == 2
    assert what in capsys.readouterr().err


def test_a_node_of_an_unknown_partition_is_refused(capsys, tmp_path, two_partitions):
    assert main(["simulate", *two_partitions, *with_partitions(tmp_path, "cpu")]) == 2
    assert "the node 'g1' belongs to the partition 'gpu', which is not configured; there are: cpu" in (
        capsys.readouterr().err
    )


def test_without_any_job_left_it_says_why(capsys, tmp_path):
    trace = tmp_path / "trace"
    trace.write_text("1 0 -1 10 1 -1 -1 1 -1 -1 1 1 1 1 1 1 -1 -1\n2 0 -1 10 9 -1 -1 9 60 -1 1 1 1 1 1 1 -1 -1\n")
    assert main(["simulate", str(trace), "--procs", "4"]) == 1
    told = capsys.readouterr().err
    assert "none of the jobs can be simulated: 1 without a time limit, 1 larger than the machine" in told


def test_a_part_of_the_trace_may_be_named_by_times(capsys, two_partitions):
    span = "--from", "2026-05-01T12:00:01", "--until", "2026-05-01T14:00:03+02:00"
    assert starts_of([*two_partitions, *span, "--map", "gpu=gpu"], capsys)[1]["jobs"] == 2


def test_names_that_mean_nothing_at_a_site_of_several_partitions_are_told(capsys, tmp_path, two_partitions):
    told = starts_of([*two_partitions, "--map", "gpu=gpu"], capsys)[2]
    assert "the trace's name cpu is no partition and no leaf queue here; these jobs go to the partition default" in told
    assert "--map cpu=PARTITION sends them elsewhere" in told
    assert "names" not in starts_of([*two_partitions, *with_partitions(tmp_path, "cpu", "gpu")], capsys)[2]


def test_a_very_long_trace_is_warned_of_once(capsys, monkeypatch, two_partitions):
    monkeypatch.setattr(simulate_input, "MANY_RECORDS", 2)
    told = starts_of([*two_partitions, "--map", "gpu=gpu"], capsys)[2]
    assert told.count("more than 2 records: a million jobs take") == 1


def test_outside_of_all_submissions_it_says_when_they_were(capsys, two_partitions):
    assert main(["simulate", *two_partitions, "--until", "5"]) == 1
    what = "the trace has no job between --from and --until: its submissions are from 1777636800 to 1777636803"
    assert what in capsys.readouterr().err


def test_the_size_of_the_machine_is_suggested_from_the_header(capsys, tmp_path):
    trace = tmp_path / "trace"
    trace.write_text("; Computer: SP2\n;  MaxProcs: 338 (batch)\n1 0 -1 10 1 -1 -1 1 60 -1 1 1 1 1 1 1 -1 -1\n")
    assert main(["simulate", str(trace)]) == 2
    assert "--procs N or --nodes FILE (the trace's header says MaxProcs: 338)" in capsys.readouterr().err


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


def test_on_a_terminal_a_line_tells_how_far_it_is(capsys, monkeypatch):
    monkeypatch.setattr(simulate_progress, "_EVERY_S", -1.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    told = simulate(capsys, "--procs", "338", "--jobs", "200", "--json", "-").err
    assert re.search(r"\r\x1b\[Ksimulated: [0-9]+ of 200 jobs, about [0-9,]+ s left", told)
    assert told.endswith("\r\x1b[K"), "the line is removed"


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


def test_a_configuration_with_a_fault_is_named_with_its_directory(capsys, tmp_path):
    (tmp_path / "rankd.toml").write_text("[priority.weights]\nfairshre = 1\n")
    told = simulate(capsys, *FCFS, "--jobs", "5", "--config", str(tmp_path), status=2).err
    assert f"{tmp_path}/rankd.toml:2: priority.weights.fairshre" in told
    assert "did you mean 'fairshare'?" in told


def test_resources_of_nodes_that_no_job_asks_for_are_told(capsys, tmp_path):
    (tmp_path / "nodes.json").write_text('{"n[1-4]": {"vcore": 128, "gpus": 4, "gpu": 2}}')
    told = simulate(capsys, "--nodes", str(tmp_path / "nodes.json"), "--jobs", "5").err
    assert "no job asks for 'gpus'; did you mean gpu?" in told
    assert "'gpu'" not in told
