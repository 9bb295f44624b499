"""Documents drawn at random: what must hold between the parts of every result, and never depends on how it is asked."""

import json
import math

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from rankd.config.evaluation import Evaluator
from rankd.core.evaluate.document import Document, decode
from rankd.core.mismatch import mismatches

NOW = 1_700_000_000.0
INT32 = (-(2**31), 2**31 - 1)
LEAVES = ("root.a", "root.b.x", "root.b.y")
EVALUATOR = Evaluator()
few = settings(max_examples=30)

AMOUNTS = st.dictionaries(st.sampled_from(["vcore", "memory", "gpu"]), st.integers(0, 9), max_size=3)
PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        "priority.policy": st.sampled_from(["fence", "default"]),
        "priority.offset": st.sampled_from(["10", "-10", "2147483647"]),
        "application.sort.priority": st.sampled_from(["enabled", "disabled"]),
        "application.sort.policy": st.sampled_from(["fifo", "fair", "stateaware"]),
    },
)


@st.composite
def queues(draw):
    def queue(name, *below):
        return {"name": name, "properties": draw(PROPERTIES), **({"queues": list(below)} if below else {})}

    root = queue("root", queue("a"), queue("b", queue("x"), queue("y")))
    return {"partitions": [{"name": "default", "queues": [root]}]}


@st.composite
def jobs(draw):
    return [
        {
            "id": draw(st.sampled_from([place, f"j{place}"])),
            "user": draw(st.sampled_from(["alice", "bob", "eve"])),
            "queue": draw(st.sampled_from([*LEAVES, "root.none"])),
            "application": draw(st.sampled_from([None, "one", "two", "three"])),
            "class_value": draw(st.sampled_from([0, 0, 1, 2, *INT32])),
            "state": draw(st.sampled_from(["pending", "pending", "pending", "running"])),
            "held": draw(st.sampled_from([False, False, False, True])),
            "submitted_at": NOW - draw(st.integers(0, 5)),
            "urgency": draw(st.sampled_from([16, 16, 0, 31])),
            "privileged": True,
            "resources": draw(AMOUNTS),
        }
        for place in range(draw(st.integers(0, 12)))
    ]


@st.composite
def documents(draw):
    applications = [
        {"id": name, "queue": queue, "created_at": NOW - draw(st.integers(0, 3)), "used": draw(st.none() | AMOUNTS),
         "state": draw(st.sampled_from(["running", "starting", "accepted"]))}
        for name in ("one", "two") for queue in LEAVES if draw(st.booleans())
    ]  # fmt: skip
    accounts = [
        {"account": "lab"},
        *({"account": "lab", "user": user, "usage": draw(st.floats(0, 9))} for user in ("alice", "bob")),
    ]
    return {
        "now": NOW,
        "queues": draw(queues()),
        "jobs": draw(jobs()),
        "applications": applications,
        "associations": accounts,
        "unknown_association": draw(st.sampled_from(["zero", "default", "refuse"])),
        "nodes": [{"name": f"n{place}", "capacity": draw(AMOUNTS)} for place in range(draw(st.integers(0, 3)))],
        "used": draw(st.dictionaries(st.sampled_from(["root", *LEAVES]), AMOUNTS, max_size=2)),
    }  # fmt: skip


def evaluate(document):
    return msgspec.json.decode(msgspec.json.encode(EVALUATOR.evaluate(json.dumps(document).encode())))


@few
@given(documents())
def test_every_row_adds_up(document):
    for row in evaluate(document)["jobs"]:
        total = sum(factor["weight"] * factor["value"] for factor in row["factors"])
        clamped = max(INT32[0], min(INT32[1], row["class_value"] + math.trunc(total)))
        assert row["priority"] == (INT32[1] if row["override"] == "expedited" else clamped)


@few
@given(documents())
def test_every_pending_job_is_ranked_once_or_has_a_reason_not_to_be(document):
    result = evaluate(document)
    rejected = {row["job"] for row in result["rejected"]}
    pending = {job["id"] for job in document["jobs"] if job["state"] == "pending"} - rejected
    assert {row["id"] for row in result["jobs"]} == pending
    ranked = {row["rank"]: row["id"] for row in result["jobs"] if row["rank"] is not None}
    assert [ranked[rank] for rank in range(1, len(ranked) + 1)] == result["ranking"]
    unranked = {row["reason"] for row in result["jobs"] if row["rank"] is None}
    assert unranked <= {"held", "application waiting"}
    started = {row["job"] for row in result["allocations"]}
    assert {row["id"] for row in result["jobs"] if row["reason"] is None} == started <= set(result["ranking"])


@few
@given(documents())
def test_a_leafs_applications_come_up_in_the_ranking_in_their_order(document):
    result = evaluate(document)
    jobs = {job["id"]: job for job in document["jobs"]}
    for path in LEAVES:
        own = [jobs[id_] for id_ in result["ranking"] if jobs[id_]["queue"] == path]
        names = [job["id"] if job["application"] is None else job["application"] for job in own]
        assert list(dict.fromkeys(names)) == result["application_order"].get(path, [])


@few
@given(documents())
def test_orders_and_rows_agree(document):
    result = evaluate(document)
    rows = {row["path"]: row for row in result["queues"]}
    for parent, children in result["queue_order"].items():
        assert {
            path for path in rows if path.rpartition(".")[0] == parent and rows[path]["priority"] is not None
        } == set(children)
        if rows[parent]["sort_priority"] == "enabled":
            priorities = [rows[path]["priority"] for path in children]
            assert priorities == sorted(priorities, reverse=True)


@few
@given(documents(), st.randoms(use_true_random=False))
def test_the_order_of_nodes_and_accounts_in_the_document_does_not_matter(document, chance):
    expected = evaluate(document)
    for section in ("nodes", "associations", "applications"):
        document[section] = chance.sample(document[section], len(document[section]))
    assert evaluate(document) == expected


@few
@given(documents())
def test_what_is_decoded_in_one_step_has_no_errors_one_by_one(document):
    decode(json.dumps(document).encode())
    assert mismatches(document, Document, "$") == []
