"""What is no document is refused whole, with every error and its JSON path."""

import msgspec
import pytest

from rankd.core.evaluate.document import Document, JobEntry

NOW = 1_700_000_000.0
W = {"age": 1000.0, "fairshare": 10.0}


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        (b"", ["$"]),
        (b"{", ["$"]),
        (b"[]", ["$"]),
        (b"\xff", ["$"]),
        (b'{"now": 1} {}', ["$"]),
        (b"[" * 100_000, ["$"]),
        (b"{}", ["$.now"]),
        (b'{"now": NaN}', ["$.now"]),
        (b'{"now": 1, "jobs": [{"id": 1, "factors": {"site": -Infinity}}]}', ["$.jobs[0].factors.site"]),
        (b'{"now": 1, "associations": [{"account": "a", "usage": 1e999}]}', ["$.associations[0].usage"]),
        (b'{"now": 1, "queues": {"partitions": [{"name": "a",, }]}}', ["$"]),
    ],
)
def test_what_is_no_json_or_no_number_is_pointed_at(refuse, text, paths):
    assert refuse(text) == paths


@pytest.mark.parametrize(
    ("section", "path"),
    [
        ({"foo": 1}, "$.foo"),
        ({"jobs": [{"id": "a", "quue": "root.a"}]}, "$.jobs[0].quue"),
        ({"jobs": [{"user": "alice"}]}, "$.jobs[0].id"),
        ({"jobs": [{"id": True}]}, "$.jobs[0].id"),
        ({"jobs": [{"id": 1, "class_value": 2**31}]}, "$.jobs[0].class_value"),
        ({"jobs": [{"id": 1, "fixed_priority": -(2**31) - 1}]}, "$.jobs[0].fixed_priority"),
        ({"jobs": [{"id": 1, "state": "sleeping"}]}, "$.jobs[0].state"),
        ({"jobs": [{"id": 1, "depends_on": [{"type": "afterok"}]}]}, "$.jobs[0].depends_on[0].job"),
        ({"nodes": [{"name": "n", "capacity": {"vcore": []}}]}, "$.nodes[0].capacity.vcore"),
        ({"nodes": [{"name": "n", "capacity": {"vcore": -1}}]}, "$.nodes[0].capacity.vcore"),
        ({"nodes": [{"name": "n", "used": {"memory": "8Gx"}}]}, "$.nodes[0].used.memory"),
        ({"scheduling": {"reserve_depth": 0}}, "$.scheduling.reserve_depth"),
        ({"scheduling": {"backfill": "full"}}, "$.scheduling.backfill"),
        ({"priority": {"max_age_s": 0}}, "$.priority.max_age_s"),
        ({"priority": {"weights": {"age": "much"}}}, "$.priority.weights.age"),
        ({"priority": {"weights": {"age": 0, "qos": 0}}}, "$.priority.weights"),
        ({"priority": {"weights": {}}}, "$.priority.weights"),
        ({"priority": {"weights": {"agee": 1}}}, "$.priority.weights.agee"),
        ({"priority": {"weights": {"resource": 1}}}, "$.priority.weights.resource"),
        ({"priority": {"fairshare": {"half_life_s": 0}}}, "$.priority.fairshare.half_life_s"),
        ({"priority": {"fairshare": {"dampening": 0}}}, "$.priority.fairshare.dampening"),
        ({"priority": {"fairshare": {"billing": {"vcore": -1}}}}, "$.priority.fairshare.billing.vcore"),
        ({"qos": [{"name": "a"}, {"name": "a"}]}, "$.qos[1].name"),
        ({"qos": [{"name": "a", "factor": 1.5}]}, "$.qos[0].factor"),
        ({"nodes": [{"name": "n"}, {"name": "n"}]}, "$.nodes[1].name"),
        ({"jobs": [{"id": "a"}, {"id": "a"}]}, "$.jobs[1].id"),
        ({"applications": [{"id": "a"}, {"id": "a"}]}, "$.applications[1].id"),
        ({"applications": [{"id": "a", "queue": "root"}]}, "$.applications[0].queue"),
        ({"applications": [{"id": "a", "state": "tired"}]}, "$.applications[0].state"),
        ({"allocations": [{"job": "a", "node": "n"}], "nodes": [{"name": "n"}]}, "$.allocations[0].job"),
        ({"allocations": [{"job": "a", "node": "n"}], "jobs": [{"id": "a"}]}, "$.allocations[0].node"),
        ({"used": {"root.nowhere": {"vcore": 1}}}, "$.used.root.nowhere"),
        ({"used": {"root": {"vcore": "many"}}}, "$.used.root.vcore"),
        ({"queues": {"partitions": [{"name": "default"}]}}, "$.queues.partitions[0].queues"),
        ({"queues": 7}, "$.queues"),
        ({"priority_classes": [{"name": "a"}]}, "$.priority_classes[0].value"),
        ({"priority_classes": [{"name": "a", "value": 1}, {"name": "a", "value": 2}]}, "$.priority_classes[1].name"),
        ({"unknown_association": "maybe"}, "$.unknown_association"),
    ],
)  # fmt: skip
def test_an_error_has_its_path(refuse, section, path):
    assert refuse(**section) == [path]


def test_all_errors_are_found_at_once(refuse):
    jobs = [{"id": 1, "nods": 2}, {"id": 2, "nodes": "two"}, {"urgency": []}]
    assert refuse(jobs=jobs, now="soon") == [
        "$.now", "$.jobs[0].nods", "$.jobs[1].nodes", "$.jobs[2].urgency", "$.jobs[2].id",
    ]  # fmt: skip


def test_all_errors_between_sections_are_found_at_once(refuse):
    jobs = [{"id": 1, "factors": {"age": 2}}, {"id": 1}]
    assert refuse(jobs=jobs, allocations=[{"job": 3, "node": "x"}]) == [
        "$.jobs[1].id", "$.jobs[0].factors.age", "$.allocations[0].job", "$.allocations[0].node",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "paths"),
    [
        ([{"account": "a", "shares": -1}], ["$.associations[0].shares"]),
        ([{"account": "a", "parent": "b"}, {"account": "b", "parent": "a"}], ["$.associations[0].parent"]),
        ([{"account": "a", "parent": "nobody"}], ["$.associations[0].parent"]),
        ([{"account": "a", "user": "u"}], ["$.associations[0].account"]),
        ([{"account": "a"}, {"account": "a", "user": "u"}, {"account": "a", "user": "u"}], ["$.associations[2].user"]),
        ([{"account": "a", "usage": -1.0}], ["$.associations[0].usage"]),
        ([{"account": "a", "priority": 10**30}], ["$.associations[0].priority"]),
    ],
)
def test_the_account_tree_is_checked(refuse, rows, paths):
    assert refuse(associations=rows) == paths


def test_usage_beyond_all_numbers_is_refused(refuse):
    rows = [{"account": "a"}, *({"account": "a", "user": u, "usage": 1.7e308} for u in "uv")]
    assert refuse(associations=rows) == ["$.associations"]


def test_an_empty_document_decides_nothing(decide):
    decision = decide()
    assert decision["jobs"] == decision["ranking"] == decision["associations"] == []
    assert [row["path"] for row in decision["queues"]] == ["root", "root.default"]
    assert decision["node_order"] == {"default": []}


def test_null_sections_are_as_if_left_out(decide):
    sections = [field.name for field in msgspec.structs.fields(Document) if field.name != "now"]
    assert decide(**dict.fromkeys(sections)) == decide()


def test_nulls_where_none_is_asked_for_are_as_if_left_out(decide):
    job, user = {"id": 1, "user": "u", "eligible_at": NOW - 5}, {"account": "a", "user": "u"}
    plain = decide(jobs=[job], associations=[{"account": "a"}, user], nodes=[{"name": "n"}], priority={"weights": W})
    idle = {field.name for field in msgspec.structs.fields(JobEntry)} - job.keys()
    assert plain == decide(
        jobs=[dict.fromkeys(sorted(idle)) | job],
        associations=[{"account": "a"}, user | dict.fromkeys(("shares", "usage", "priority", "default", "parent"))],
        nodes=[{"name": "n"} | dict.fromkeys(("capacity", "labels", "state", "partition", "used"))],
        priority={"weights": W, "policy": None, "fairshare": {"algorithm": None, "billing": None}, "favor": None},
    )


def test_a_null_where_something_is_needed_is_an_error(refuse):
    assert refuse({"now": None, "jobs": None}) == ["$.now"]
    assert refuse(jobs=[{"id": None}], associations=[{"account": None}]) == [
        "$.associations[0].account", "$.jobs[0].id",
    ]  # fmt: skip


def test_a_job_takes_every_field_of_a_jobs_record(decide):
    job = {
        "id": 18, "command": ["true"], "name": "n", "key": "k", "env": {}, "cwd": "/", "stdin": None, "stdout": "o",
        "stderr": None, "comment": "c", "requeue": True, "array": None, "groups": ["g"], "user": "alice",
        "state": "completed", "reason": None, "started_at": 1.0, "ended_at": 2.0, "exit_status": 0, "signal": None,
        "nodelist": "n[1-2]",
    }  # fmt: skip
    assert decide(jobs=[job])["rejected"] == []
