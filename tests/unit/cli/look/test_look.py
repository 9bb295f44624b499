"""The looking commands on a real database."""

import json
import time
from contextlib import closing
from pathlib import Path

import pytest
from unit.store.sample_database import NOW, WEIGHTS, make_database

from rankd.cli.common.freshness import Known
from rankd.cli.look import accounting_field
from rankd.cli.look.nodes import _grouped, fields, shown_state
from rankd.cli.look.prio import decimals
from rankd.cli.look.queue import fields as queue_fields
from rankd.cli.look.show import _changes, _print_record
from rankd.cli.main import main
from rankd.core.simulate.sacct import read_sacct
from rankd.store.engine.driver import sqlite3

ROOT = Path(__file__).parents[4]
TRACE_FIELDS = "JobID,Submit,ElapsedRaw,Timelimit,ReqCPUS,AllocCPUS,User,Account,Queue,Partition,ReqTRES"
LIMITED = ["queue", "list", "acct", "prio", "whatif", "reload"]
"""Commands with ``--limit``; ``config history`` has it, too."""


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    return make_database(tmp_path_factory.mktemp("look") / "rankd.db")


@pytest.fixture
def rankd(database, capsys, monkeypatch):
    """Run a command on the sample; gives what it printed."""
    monkeypatch.setenv("RANKD_DB", str(database))
    monkeypatch.setenv("RANKD_USER", "alice")
    monkeypatch.delenv("RANKD_NATS", raising=False)
    monkeypatch.setattr("time.time", lambda: NOW)  # the commands' clock: how long jobs have run is part of the tables

    def run(*arguments, status=0):
        assert main(list(arguments)) == status
        return capsys.readouterr().out

    return run


def table(text):
    header, *rows = text.splitlines()
    return header.split(), [row.split() for row in rows]


def first(text, place=0):
    return [row[place] for row in table(text)[1]]


def test_queue_has_squeues_columns_running_first_then_by_rank(rankd):
    assert rankd("queue").splitlines() == [
        "JOBID QUEUE  NAME USER  ST TIME NODES NODELIST(REASON)",
        "    4 root.a busy alice R  1:00     2 n[01-02]",
        "    2 root.B two  bob   PD 0:00     1 (rank 1)",
        "    1 root.a one  alice PD 0:00     1 (rank 2)",
        "    3 root.a kept alice PD 0:00     1 (held)",
        "    6 root.a late alice PD 0:00     1 (not ranked yet)",
    ]


def test_queue_long_has_words_and_limits(rankd):
    header, rows = table(rankd("queue", "-l"))
    assert header == ["JOBID", "QUEUE", "NAME", "USER", "STATE", "TIME", "TIME_LIMIT", "NODES", "NODELIST(REASON)"]
    assert rows[0][4:7] == ["RUNNING", "1:00", "1:00:00"]
    assert rows[1][4:7] == ["PENDING", "0:00", "UNLIMITED"]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["-u", "bob"], ["2"]),
        (["--me"], ["4", "1", "3", "6"]),
        (["-t", "PD"], ["2", "1", "3", "6"]),
        (["-t", "running,CD"], ["4", "5"]),
        (["-t", "all"], ["4", "5", "2", "1", "3", "6"]),
        (["-j1,5"], ["5", "1"]),
        (["-q", "root.b"], ["2"]),
        (["-q", "b"], ["2"]),
        (["-p", "default", "-n", "one,two"], ["2", "1"]),
        (["-w", "n[02-04]"], ["4"]),
        (["-S", "-i"], ["6", "4", "3", "2", "1"]),
        (["-S", "u,-i"], ["6", "4", "3", "1", "2"]),
        (["--start"], ["2", "1", "3", "6"]),
    ],
)
def test_queue_filters_and_sorts(rankd, flags, expected):
    assert first(rankd("queue", *flags)) == expected


@pytest.mark.parametrize("command", ["queue", "prio", "acct"])
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["-u", "bobb"], "there is no user 'bobb'; did you mean 'bob'?"),
        (["-u", "bob,stranger-0"], "there is no user 'stranger-0'"),
        (["-q", "nowhere"], "there is no queue 'nowhere'"),
        (["-q", "root.bb"], "there is no queue 'root.bb'; did you mean 'root.B'?"),
        (["-A", "nobody"], "there is no account 'nobody'"),
        (["-p", "defualt"], "there is no partition 'defualt'; did you mean 'default'?"),
    ],
)
def test_a_filter_names_what_exists(rankd, capsys, command, flags, message):
    assert rankd(command, "--json", "-j", "1") != ""
    assert main([command, *flags]) == 1
    assert message in capsys.readouterr().err


def test_an_own_name_and_users_of_the_machine_are_known_before_their_first_job(rankd, monkeypatch):
    assert rankd("queue", "-h", "-u", "root") == ""
    monkeypatch.setenv("RANKD_USER", "newcomer")
    assert rankd("queue", "-h", "--me") == ""


@pytest.mark.usefixtures("rankd")
def test_queue_refuses_a_node_that_does_not_exist(capsys):
    assert main(["queue", "-w", "n[01,77]"]) == 1
    assert "there is no node 'n77'" in capsys.readouterr().err


def test_queue_formats(rankd):
    assert (
        rankd("queue", "-h", "-o", "%i|%T|%w|%p|%Q|%y", "-j", "2,4")
        == "4|RUNNING|root.a|||16\n2|PENDING|root.B|1|7540|16\n"
    )


def test_squeues_letters_have_its_meaning(rankd, capsys):
    assert rankd("queue", "-h", "-o", "%K|%b|%m|%E", "-j", "2") == "N/A|N/A|1G|(null)\n"
    assert rankd("queue", "-h", "-o", "%l %L", "-j", "2") == "UNLIMITED UNLIMITED\n"
    assert main(["queue", "-o", "%i %G"]) == 2
    assert "unknown field '%G'; known: %i JOBID, " in capsys.readouterr().err


def test_queue_noheader_is_h(rankd):
    assert len(rankd("queue", "-h").splitlines()) == 5


def test_queue_as_json_is_the_records(rankd):
    rows = json.loads(rankd("queue", "--json", "-u", "bob"))
    assert [(row["id"], row["state"], row["rank"], row["priority"]) for row in rows] == [(2, "pending", 1, 7540)]


def test_an_unknown_state_is_a_usage_error(rankd):
    rankd("queue", "-t", "sleeping", status=2)


@pytest.mark.parametrize("command", ["queue", "acct"])
def test_a_state_that_only_slurm_has_matches_no_job_and_says_so(rankd, capsys, command):
    assert main([command, "-h" if command == "queue" else "-H", "-t", "S,STOPPED"]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "rankd: no job of rankd is ever SUSPENDED or STOPPED, so no job matches this\n"
    assert first(rankd("queue", "-t", "preempted,PD")) == ["2", "1", "3", "6"]


@pytest.mark.parametrize("spec", ["%5", "%-5i", "%i %!", "%.i", "%.-8i", "100%", "%1000i"])
def test_what_is_no_field_in_a_format_is_a_usage_error(rankd, capsys, spec):
    assert rankd("queue", "-h", "-o", "%i", "-j", "2") == "2\n"
    assert main(["queue", "-o", spec]) == 2
    assert "is not a field" in capsys.readouterr().err


def test_formats_have_widths_and_sides_as_in_squeue(rankd):
    assert rankd("queue", "-h", "-o", "<%5j>%%<%.5j>", "-j", "2") == "<two  >%<  two>\n"


def test_prio_has_a_column_per_configured_factor_and_adds_up(rankd):
    header, rows = table(rankd("prio"))
    names = ["JOBID", "QUEUENAME", "USERNAME", "ACCOUNT", "PRIORITY"]
    assert header == [*names, "FAIRSHARE", "USER", "AGE", "CLASS", "QOSNAME"]
    assert [row[0] for row in rows] == ["2", "1", "3", "6"]
    for row in rows[:2]:
        assert int(row[4]) == int(row[8]) + int(sum(float(points) for points in row[5:8]))
    assert rows[3][5:8] == ["-", "-", "-"], "not ranked yet: no points"


def test_prio_norm_shows_raw_values_with_seven_decimals(rankd):
    _, rows = table(rankd("prio", "-n", "-j", "2"))
    assert rows[0][5:8] == ["0.7500000", "0.0000000", "0.0001653"]


def test_prio_weights_are_a_row(rankd):
    assert rankd("prio", "-w").split() == ["JOBID", "FAIRSHARE", "USER", "AGE", "Weights", "10000", "100.5", "1000"]
    assert json.loads(rankd("prio", "-w", "--json")) == WEIGHTS


def test_prio_long_adds_rank_and_what_overrides(rankd):
    header, rows = table(rankd("prio", "-l"))
    assert header[-6:] == ["RANK", "PARTITION", "OVERRIDE", "REASON", "SUBMIT_TIME", "GENERATION"]
    assert [row[10] for row in rows] == ["1", "2", "-", "-"]
    assert rows[3][12] == "initial"


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ("%i %u %Y %w %o %r %n %c", "2 bob 7540 root.B physics default normal 40"),
        ("%a|%A|%f|%F", "0.0001653|0.17|0.7500000|7500.00"),
        ("%x %X %j %Q", "0.0000000 0.00 - -"),
        ("%.4i|%4u|", "   2|bob |"),
        ("%y", "0.0000035111"),
    ],
)
def test_prio_formats_have_sprios_letters(rankd, spec, line):
    assert rankd("prio", "-h", "-j", "2", "-o", spec) == f"{line}\n"


@pytest.mark.parametrize(
    ("flags", "expected"),
    [(["-u", "alice"], ["1", "3", "6"]), (["-S", "-i"], ["6", "3", "2", "1"]), (["--limit", "1"], ["2"])],
)
def test_prio_filters_and_sorts(rankd, flags, expected):
    assert first(rankd("prio", *flags)) == expected


def test_prio_json_has_the_factors(rankd):
    (row,) = json.loads(rankd("prio", "--json", "-j2"))
    assert [factor["name"] for factor in row["factors"]] == list(WEIGHTS)


def clock(at):
    return time.strftime("%H:%M:%S", time.localtime(at))


@pytest.mark.parametrize(("since", "shown"), [(NOW + 60, True), (NOW - 10, False), (NOW - 40, True)])
def test_acct_since_a_clock_time_goes_back_to_when_it_was_last_reached(rankd, since, shown):
    """Job 5 ended at NOW - 30. A clock time that is yet to come today means yesterday's."""
    assert ("5" in first(rankd("acct", "-S", clock(since)))) == shown


@pytest.mark.parametrize("command", ["queue", "list", "acct"])
@pytest.mark.parametrize("limit", ["0", "-1", "1.5", "few", ""])
def test_a_limit_is_a_whole_number_of_at_least_1(rankd, capsys, command, limit):
    assert len(first(rankd(command, "-t", "all", "--limit", "1"))) == 1
    assert main([command, f"--limit={limit}"]) == 2
    assert "limit" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[name] for name in LIMITED] + [["config", "history"]])
@pytest.mark.parametrize("limit", ["0", "-1", "1.5", "few", "", "²"])
def test_a_wrong_limit_is_refused_in_plain_words_by_every_command(capsys, words, limit):
    assert main([*words, f"--limit={limit}"]) == 2
    said = capsys.readouterr().err
    assert f"argument --limit: '{limit}' is not a limit; write a whole number of at least 1" in said


@pytest.mark.parametrize("command", [["queue", "-j"], ["list", "-j"], ["acct", "-j"], ["acct"], ["prio", "-j"]])
def test_jobs_that_do_not_exist_are_reported_by_every_list_as_show_does(rankd, capsys, command):
    for name, said in (
        ("999", "there is no job 999"),
        ("999,1000_[1-2],1001_7", "there is no job 999, 1000_[1-2], 1001_7"),
        ("900-950", "there is no job in 900-950"),
        (",".join(map(str, range(900, 950))), f"there is no job {', '.join(map(str, range(900, 910)))}, …"),
    ):
        assert main([*command, name]) == 1
        assert capsys.readouterr() == ("", f"rankd: {said}\n")
    assert first(rankd(*command, "2,999")) == ["2"]
    assert main([*command, "2,999,3-900"]) == 0
    assert capsys.readouterr().err == "rankd: there is no job 999\n", "what is in a range is enough"
    assert main([*command, "2,1000-1010"]) == 0
    assert capsys.readouterr().err == "rankd: there is no job in 1000-1010\n"
    assert main([*command, "2,900-1010", "-u", "nobody"]) == 0
    assert capsys.readouterr().err == "", "job 2 exists, and nobody knows about the range"


def test_prio_of_a_job_that_does_not_exist_is_refused_as_show_does(rankd, capsys):
    for words in (["show", "999"], ["prio", "-j", "999"]):
        assert main(words) == 1
        assert capsys.readouterr() == ("", "rankd: there is no job 999\n")
    assert main(["prio", "-j", "999,1000"]) == 1
    assert capsys.readouterr().err == "rankd: there is no job 999, 1000\n"
    assert first(rankd("prio", "-j", "2,999")) == ["2"]
    assert first(rankd("prio", "-j", "4")) == []  # it runs


def test_prio_before_the_first_pass_says_so(tmp_path, capsys):
    database = make_database(tmp_path / "rankd.db", ranked=False)
    assert main(["prio", "--db", str(database)]) == 0
    assert "no job is ranked yet" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("points", "places"),
    [([0.5, 0.5], 2), ([0.994, 0.005], 3), ([0.4996, 0.4996], 4), ([0.49999996, 0.5], 8)],
)
def test_points_are_shown_with_as_many_decimals_as_it_takes_to_add_up(points, places):
    row = {
        "override": None,
        "class_value": 5,
        "factors": [{"points": p} for p in points],
        "priority": 5 + int(sum(points)),
    }
    assert decimals([row]) == places


def test_decimals_ignore_rows_whose_priority_is_no_sum():
    assert decimals([{"override": "expedited", "factors": [{"points": 1.0}], "class_value": 0, "priority": 9}]) == 2


def test_show_tells_everything_with_the_breakdown_below(rankd):
    text = rankd("show", "2")
    assert "command            sleep 2\n" in text
    assert "state              pending\n" in text
    assert "priority 7540 (rank 1, generation 7)\n" in text
    assert "fairshare 0.7500000  10000 7500.0000000\n" in text


def test_show_counts_the_variables_unless_they_are_asked_for(capsys):
    for asked, said in ((False, "env    2 variables; --env prints them"), (True, 'env    {"A":"1","B":"2"}')):
        _print_record({"id": 7, "state": "pending", "env": {"A": "1", "B": "2"}}, with_environment=asked)
        assert capsys.readouterr().out.splitlines() == ["id     7", "state  pending", said]


def test_show_as_json_is_the_record_or_a_list_of_them(rankd):
    assert json.loads(rankd("show", "4", "--json"))["nodelist"] == "n[01-02]"
    assert [job["id"] for job in json.loads(rankd("show", "4", "5", "--json"))] == [4, 5]


@pytest.mark.usefixtures("rankd")
def test_show_prints_what_is_there_beside_the_errors_of_the_rest(capsys):
    assert main(["show", "4", "99", "5", "90-98"]) == 1
    out, err = capsys.readouterr()
    assert [line.split()[1] for line in out.splitlines() if line.startswith("id ")] == ["4", "5"]
    assert err == "rankd: there is no job in 90-98\nrankd: there is no job 99\n"
    assert main(["show", "99", "4", "--json"]) == 1
    assert [job["id"] for job in json.loads(capsys.readouterr().out)] == [4]
    assert main(["show", "99", "--json"]) == 1
    assert capsys.readouterr().out == ""


def test_show_has_waiting_times_as_why_does(capsys):
    _print_record({"id": 7, "waited_resources_s": 7.415730714797974, "waited_held_s": None}, with_environment=False)
    assert capsys.readouterr().out.splitlines() == ["id                  7", "waited_resources_s  7.42 s"]


def test_history_says_which_signal_was_sent():
    assert _changes({"event": "signal", "detail": {"signal": "USR1"}}) == "signal USR1"


def test_history_is_the_events_in_order(rankd):
    header, rows = table(rankd("history", "1"))
    assert header == ["TIME", "EVENT", "STATE", "BY", "CAUSE", "GENERATION", "RANK", "ALLOCATION", "NODES", "CHANGES"]
    assert [row[1:] for row in rows] == [
        ["submit", "pending", "alice", *"------"], ["hold", "pending", "root", "asked", *"-----"],
    ]  # fmt: skip
    rankd("history", "99", status=1)


def test_nodes_are_folded_by_state(rankd):
    header, rows = table(rankd("nodes"))
    assert header == ["PARTITION", "AVAIL", "TIMELIMIT", "NODES", "STATE", "NODELIST"]
    assert [row[3:] for row in rows] == [
        ["1", "allocated", "n02"], ["1", "drained", "n04"], ["1", "idle", "n03"],
        ["1", "lost", "n11"], ["1", "mixed", "n01"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["-N"], ["n01", "n02", "n03", "n04", "n11"]),
        (["-N", "-t", "idle,mixed"], ["n01", "n03"]),
        (["-N", "-R"], ["n04", "n11"]),
        (["-N", "-n", "n[01-02]"], ["n01", "n02"]),
        (["-N", "-p", "other"], []),
    ],
)
def test_nodes_filters(rankd, flags, expected):
    assert first(rankd("nodes", *flags)) == expected


def test_nodes_say_what_they_offer_besides_cores_and_memory(rankd):
    offered = rankd("nodes", "-h", "-N", "-n", "n01", "-o", "%N %G %c")
    assert offered.split()[:2] == ["n01", "(null)"]
    row = {"nodes": [{"capacity": {"vcore": 4, "gpu": 2, "gpu:a100": 2}}, {"capacity": {"vcore": 4}}]}
    assert fields()["G"].shown(row) == "gpu:a100:2+"


def test_nodes_with_different_gres_have_rows_of_their_own_where_the_format_names_it(rankd):
    plain = rankd("nodes", "-h", "-o", "%N").splitlines()
    assert len(rankd("nodes", "-h", "-o", "%N %G").splitlines()) >= len(plain)
    nodes = [_node(name, **more) for name, more in (("n1", {"gpu": 2.0}), ("n2", {}), ("n3", {"gpu": 2.0}))]
    rows = _grouped(nodes, [fields()["G"]], by_state=True)
    assert [(fields()["N"].shown(row), fields()["G"].shown(row)) for row in rows] == [
        ("n2", "(null)"),
        ("n[1,3]", "gpu:2"),
    ]
    assert [fields()["G"].shown(row) for row in _grouped(nodes, [], by_state=True)] == ["gpu:2+"]


def _node(name, **more):
    return {"name": name, "partition": "default", "shown_state": "idle", "capacity": {"vcore": 4.0, **more}}


def test_nodes_summary_counts_what_is_used(rankd):
    assert rankd("nodes", "-s", "-h").split() == ["default", "up", "infinite", "2/1/2/5", "n[01-04,11]"]
    (row,) = table(rankd("nodes", "-N", "-l", "-n", "n01"))[1]
    assert row[4:8] == ["4", "1.5/2.5/0/4", "8G", "0"]


@pytest.mark.parametrize(
    ("state", "allocations", "used", "word"),
    [
        ("up", 0, 0, "idle"), ("up", 1, 2, "mixed"), ("up", 1, 4, "allocated"), ("draining", 1, 4, "draining"),
        ("draining", 0, 0, "drained"), ("down", 0, 0, "down"), ("lost", 1, 1, "lost"),
    ],
)  # fmt: skip
def test_a_nodes_state_is_sinfos_word(state, allocations, used, word):
    node = {"state": state, "allocations": allocations, "allocated": {"vcore": used}, "capacity": {"vcore": 4}}
    assert shown_state(node) == word


def test_share_is_the_tree_with_own_rows(rankd):
    lines = rankd("share").splitlines()
    assert lines[0].split() == [
        "Account", "User", "RawShares", "NormShares", "RawUsage", "NormUsage", "EffectvUsage", "FairShare", "LevelFS",
    ]  # fmt: skip
    assert [line[:15].rstrip() for line in lines[1:]] == ["root      -", " physics  -", "  physics alice"]
    assert lines[3].split()[1:] == ["alice", "2", "0.500000", "200", "0.200000", "0.400000", "0.500000", "1.250000"]


@pytest.mark.parametrize(
    "command",
    [
        "acct", "acct -o JobID,AllocTRES,MaxRSS,Comment,WorkDir,State", "list -t R,CD", "queue -t R,CD", "history 1",
        "prio -l", "share -a", "queues", "nodes -N -l", "queue -t all -o %i:%k:%f:%Q:%N:%e:%x",
        "queue -t all -o %6i:%6k:%N",
    ],
)  # fmt: skip
def test_every_line_has_as_many_words_as_the_header(rankd, command):
    header, rows = table(rankd(*(word.replace(":", " ") for word in command.split())))
    assert rows
    assert {len(row) for row in rows} == {len(header)}


def test_acct_has_every_field_and_widths_as_sacct(rankd, capsys):
    known = rankd("acct", "-e").split()
    assert {"Reason", "WorkDir", "JobName", "State"} <= set(known)
    assert rankd("acct", "-o", "ALL", "-P").splitlines()[0].split("|") == known
    named = ["acct", "-j", "1", "-o", "JobName%6,User%-8,State%5,JobID", "-S", "2000-01-01"]
    assert rankd(*named).splitlines() == ["JobNa+ User     State JobID", "   one alice    PEND+     1"]
    assert rankd(*named, "-P") == "JobName|User|State|JobID\none|alice|PENDING|1\n"
    assert main(["acct", "-o", "JobName%wide"]) == 2
    assert "'JobName%wide' has no valid width; write JobName%30" in capsys.readouterr().err


def test_acct_writes_a_trace_for_simulate_with_the_fields_that_the_guide_names(rankd):
    text = rankd("acct", "-P", "-S", "2000-01-01", "-o", TRACE_FIELDS)
    job = next(job for job in read_sacct(text.encode().splitlines()) if job.number == "5")
    assert (job.user, job.run_s > 0, job.requested > 0) == ("alice", True, True)
    assert f"-o {TRACE_FIELDS} " in (ROOT / "docs/how-to/simulate.md").read_text()


def test_acct_has_saccts_words(rankd):
    named = "JobID,Elapsed,NCPUS,MaxRSS,State,ExitCode"
    short = rankd("acct", "-S", "2000-01-01", "-P", "-o", named).splitlines()
    assert short[0] == named.replace(",", "|")
    assert (
        rankd("acct", "-S", "2000-01-01", "-P", "-o", named.replace("NCPUS", "AllocCPUS")).splitlines()[1:]
        == (short[1:])
    )
    long = rankd("acct", "-S", "2000-01-01", "-P", "-l").splitlines()
    assert len(long) == len(short)
    assert set(long[0].split("|")) > {"JobID", "Submit", "Start", "End", "Waited", "CPUEff", "MemEff", "NodeList"}
    rankd("acct", "-l", "-o", "JobID", status=2)


def test_a_summary_has_the_columns_that_are_named(rankd, capsys):
    named = ["acct", "--summary", "user", "-S", "2000-01-01", "-P", "-o"]
    assert {line.count("|") for line in rankd(*named, "GPUHours,User").splitlines()} == {1}
    assert rankd(*named, "User,Jobs").splitlines()[0] == "User|Jobs"
    assert main([*named, "User,GPUTime"]) == 2
    assert "unknown field 'GPUTime'; known: User Jobs Completed CoreHours" in capsys.readouterr().err


def test_acct_sums_up_what_users_and_accounts_used(rankd):
    header, rows = table(rankd("acct", "--summary", "user", "-S", "2000-01-01"))
    assert header[:6] == ["User", "Jobs", "Completed", "CoreHours", "GPUHours", "GiBHours"]
    assert [name for name in header if name.startswith("Wait")] == header[6:]
    line, *lines = rankd("acct", "--summary", "user", "--since", "2000-01-01", "--csv").splitlines()
    assert line.split(",") == header
    assert [row.split(",") for row in lines] == rows
    assert {row[0] for row in rows} == {"alice", "bob"}
    listed = json.loads(rankd("acct", "--summary", "account", "-S", "2000-01-01", "--json"))
    assert [one["account"] for one in listed] == ["physics"]
    assert sum(int(row[1]) for row in rows) == listed[0]["jobs"]
    monthly = json.loads(rankd("acct", "--summary", "account", "-S", "2020-01-01", "--per", "month", "--json"))
    for name in ("jobs", "core_s", "waited_resources_s"):
        assert sum(one[name] for one in monthly) == listed[0][name]
    assert rankd("acct", "--summary", "user", "-S", "2020-01-01", "--per", "month", "-P").startswith("Period|User|")
    rankd("acct", "--per", "month", status=2)


def test_share_flags(rankd):
    assert len(rankd("share", "-a", "-n").splitlines()) == 4
    assert first(rankd("share", "-U", "-u", "bob"), 1) == ["bob"]
    assert rankd("share", "-P", "-n", "-A", "root", "-o", "account,rawshares") == "root|1\n"
    assert rankd("share", "-p", "-n", "-A", "root", "-o", "Account") == "root|\n"
    rankd("share", "-o", "nothing", status=2)


def test_an_infinite_level_fair_share_is_inf_in_tables_and_json(tmp_path, rankd):
    path = make_database(tmp_path / "rankd.db")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE generation_associations SET level_fairshare = 9e999")
    place = ["--db", str(path)]
    assert rankd("share", "-U", "-n", "-P", "-o", "levelfs", *place) == "inf\n"
    assert json.loads(rankd("share", "-U", "--json", *place))[0]["level_fairshare"] == "inf"


def test_queues_are_a_tree_in_cores(rankd):
    lines = rankd("queues").splitlines()
    assert [line[:6].rstrip() for line in lines] == ["QUEUE", "root", "  a", "  B"]
    assert lines[2].split() == [
        "a", "5000", "default", "0", "fifo", "0.2500", "-", "1", "1", "vcore=3", "-", "vcore=4",
    ]  # fmt: skip


def test_the_database_is_asked_in_sql(rankd):
    assert rankd("db", "sql", "SELECT id, state FROM job WHERE id < 3").splitlines() == [
        "id state",
        " 1 pending",
        " 2 pending",
    ]
    assert json.loads(rankd("db", "sql", "--json", "SELECT NULL AS a")) == [{"a": None}]
    rankd("db", "sql", "DELETE FROM jobs", status=1)
    rankd("db", "sql", "SELECT", status=1)


def test_a_query_that_takes_too_long_is_ended(rankd):
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
    rankd("db", "sql", endless, "--limit-s", "0.1", status=1)


def test_check_states_version_revision_and_integrity(rankd):
    text = rankd("db", "check")
    assert "integrity ok" in text
    assert "revision  None" not in text


def test_check_finds_damage(tmp_path, capsys):
    (tmp_path / "rankd.db").write_bytes(b"no database at all" * 1000)
    assert main(["db", "check", "--db", str(tmp_path / "rankd.db")]) == 3
    assert "not a database" in capsys.readouterr().err


def test_upgrade_makes_what_is_missing_and_does_nothing_twice(tmp_path, capsys):
    for _ in range(2):
        assert main(["db", "upgrade", "--db", str(tmp_path / "new" / "rankd.db")]) == 0
    assert main(["db", "check", "--db", str(tmp_path / "new" / "rankd.db")]) == 0
    assert "integrity ok" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"state": "pending", "reason": "begin time", "begin_at": NOW, "expected_start_at": None}, NOW),
        ({"state": "pending", "reason": "resources", "begin_at": NOW - 9, "expected_start_at": NOW}, NOW),
        ({"state": "pending", "reason": "resources", "begin_at": NOW - 9, "expected_start_at": None}, None),
        ({"state": "running", "reason": None, "begin_at": NOW - 9, "started_at": NOW}, NOW),
    ],
)
def test_a_start_is_known_from_a_reservation_or_a_begin_time(row, expected):
    assert queue_fields(Known({}, {}, NOW))["S"].value(row) == expected


def test_tasks_are_listed_by_their_indices_although_their_records_have_other_ids():
    rows = [
        {"id": 9, "array_job": 3, "array_task": 10},
        {"id": 8, "array_job": None, "array_task": None},
        {"id": 7, "array_job": 3, "array_task": 11},
        {"id": 3, "array_job": 3, "array_task": None, "array": "2-4"},
        {"id": 3, "array_job": None, "array_task": None, "array": None},
    ]
    assert [(row["id"], row["array_task"]) for row in sorted(rows, key=accounting_field.by_task)] == [
        (3, None), (3, None), (9, 10), (7, 11), (8, None)
    ]  # fmt: skip


def test_an_exclusive_job_has_the_cores_and_the_gpus_of_its_nodes():
    held = {"vcore": 12.0, "memory": 2**30, "gpu": 4, "gpu:a100": 4}
    row = {"id": 1, "nodes": 2, "cores": 2.0, "resources": {"vcore": 1.0}, "nodelist": "n[1-2]", "state": "running"}
    columns = accounting_field.fields(Known({}, {}, NOW))
    shown = [columns[name].shown(row | {"allocated": held}) for name in ("alloccpus", "gpus", "alloctres", "reqcpus")]
    assert shown == ["12", "4", "cpu=12,gres/gpu=4,gres/gpu:a100=4,mem=1G,node=2", "2"]
    assert columns["alloccpus"].shown(row) == "2"
    assert queue_fields(Known({}, {}, NOW))["C"].shown(row | {"allocated": held}) == "12"
