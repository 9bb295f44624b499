"""``rankd submit -w`` and ``-x``, and the same decisions by ``rankd evaluate``."""

from __future__ import annotations

import json

import pytest
from system.test_array import ended, record
from system.test_evaluate import rankd, state
from watch import comes

from rankd.core.model.nodelist import unfold


@pytest.fixture(scope="module")
def machine(shared_machine):
    """One site for all tests of this file, with four simulated nodes."""
    shared_machine.start("--simulate", "4", "--no-local-agent")
    return shared_machine


@pytest.fixture(scope="module")
def nodes(machine):
    names = sorted(row["name"] for row in machine.rows("SELECT name FROM node"))
    assert len(names) == 4
    return names


def submit(machine, *words: str) -> dict:
    return ended(machine, int(machine.rankd("submit", "--parsable", *words, "--", "sleep", "0.1")))


def nodes_of(job: dict) -> list[str]:
    return unfold(job["nodelist"])


def test_a_job_gets_the_nodes_that_are_named_and_others_never(machine, nodes):
    folded = f"{nodes[1]},{nodes[3]}"
    assert sorted(nodes_of(submit(machine, "-w", folded))) == [nodes[1], nodes[3]]
    assert sorted(nodes_of(submit(machine, "-N", "2", "--nodelist", folded))) == [nodes[1], nodes[3]]
    for _ in range(4):
        assert nodes_of(submit(machine, "-x", ",".join(nodes[:3]))) == [nodes[3]]
    assert len(nodes_of(submit(machine, "-N", "3", "-x", nodes[0]))) == 3


def test_a_number_of_nodes_that_cannot_be_kept_is_refused(machine, nodes):
    told = machine.rankd_fails("submit", "-N", "3", "-w", nodes[0], "--", "true", status=2)
    assert "name 3, or write -N 1" in told
    assert "write -N 2, or name fewer" in machine.rankd_fails(
        "submit", "-N", "1", "-w", ",".join(nodes[:2]), "--", "true", status=2
    )


def test_directives_name_nodes_too(machine, nodes, tmp_path):
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/sh\n#SBATCH -x {nodes[0]},{nodes[1]},{nodes[2]} -o /dev/null\n")
    assert nodes_of(ended(machine, int(machine.rankd("submit", "--parsable", str(script))))) == [nodes[3]]
    script.write_text(f"#!/bin/sh\n#SBATCH --nodelist={nodes[2]} -o /dev/null\n")
    assert nodes_of(ended(machine, int(machine.rankd("submit", "--parsable", str(script))))) == [nodes[2]]


def test_why_says_that_no_node_has_the_name(machine):
    job = int(machine.rankd("submit", "--parsable", "-w", "elsewhere", "--", "true"))
    comes(lambda: record(machine, job)["reason"])
    assert "No node named elsewhere is up." in machine.rankd("why", str(job))
    machine.rankd("cancel", str(job))


def test_evaluate_decides_the_same():
    nodes = [{"name": f"n{number}", "capacity": {"vcore": 4}} for number in (1, 2, 3)]
    jobs = [
        {"id": "named", "nodes": 2, "constraints": "rankd/node in (n1,n3)"},
        {"id": "others", "constraints": "rankd/node notin (n1,n3)"},
        {"id": "nowhere", "constraints": "rankd/node in (n9)"},
    ]
    done = rankd("evaluate", "-", stdin=state(nodes=nodes, jobs=jobs))
    found = json.loads(done.stdout)
    given = {one["job"]: sorted(one["nodes"]) for one in found["allocations"]}
    assert given == {"named": ["n1", "n3"], "others": ["n2"]}
    [reason] = [job["reason"] for job in found["jobs"] if job["id"] == "nowhere"]
    assert reason == "no node fits"
