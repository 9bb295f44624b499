"""A job that can't be taken is rejected with a code and a field; all others are decided as if it was not there."""

import pytest

CLASSES = [
    {"name": "tier1", "value": 4000, "preemption_policy": "Never"},
    {"name": "usual", "value": 50, "global_default": True},
]
ACCOUNTS = [{"account": "physics"}, {"account": "physics", "user": "alice"}, {"account": "optics"}]


SECTIONS = {
    "queues": {
        "partitions": [
            {
                "name": "default",
                "queues": [
                    {
                        "name": "root",
                        "queues": [
                            {"name": "A"},
                            {"name": "team", "queues": [{"name": "x", "resources": {"max": {"vcore": 4}}}]},
                        ],
                    }
                ],
            },
            {"name": "gpu", "queues": [{"name": "root", "queues": [{"name": "cards"}, {"name": "a"}]}]},
        ]
    },
    "priority_classes": CLASSES,
    "associations": ACCOUNTS,
    "qos": [{"name": "high", "priority": 100}],
}


@pytest.mark.parametrize(
    ("job", "code", "field"),
    [
        ({"queue": "root.b"}, "unknown_queue", "queue"),
        ({"queue": "root.team"}, "parent_queue", "queue"),
        ({"queue": None}, "unknown_queue", "queue"),  # root.default is not there
        ({"partition": "cpu"}, "unknown_partition", "partition"),
        ({"partition": "default", "queue": "root.cards"}, "unknown_queue", "queue"),
        ({"account": "chemistry"}, "unknown_account", "account"),
        ({"qos": "low"}, "unknown_qos", "qos"),
        ({"priority_class": "tier2"}, "unknown_priority_class", "priority_class"),
        ({"priority_class": "tier1", "priority": 4001}, "priority_mismatch", "priority"),
        ({"preemption_policy": "Never"}, "preemption_policy_mismatch", "preemption_policy"),
        ({"priority_class": "system-node-critical"}, "system_priority_class", "priority_class"),
        ({"urgency": 17}, "urgency_not_allowed", "urgency"),
        ({"urgency": 32, "privileged": True}, "bad_urgency", "urgency"),
        ({"nodes": 0}, "bad_nodes", "nodes"),
        ({"nodes": 2, "min_nodes": 3}, "bad_min_nodes", "min_nodes"),
        ({"time_limit_s": 0}, "bad_time_limit", "time_limit_s"),
        ({"resources": {"vcore": "4x"}}, "bad_quantity", "resources.vcore"),
        ({"constraints": "a >"}, "bad_constraints", "constraints"),
        ({"queue": "root.team.x", "resources": {"vcore": 5}}, "queue_quota", "resources"),
        ({"queue": "root.team.x", "nodes": 5}, "queue_quota", "resources"),
    ],
)
def test_a_bad_job_is_rejected_and_the_others_are_not(decide, job, code, field):
    decision = decide(jobs=[{"id": "bad", "queue": "root.a", **job}, {"id": "good", "queue": "root.a"}], **SECTIONS)
    assert [(row["job"], row["code"], row["field"]) for row in decision["rejected"]] == [("bad", code, field)]
    assert decision["ranking"] == ["good"]


@pytest.mark.parametrize(
    "job",
    [
        {"queue": "ROOT.A"},
        {"queue": "a"},
        {"queue": "root.cards"},
        {"queue": "root.cards", "partition": "gpu"},
        {"queue": "root.team.x", "nodes": 9, "min_nodes": 4},
        {"priority_class": "tier1", "priority": 4000, "preemption_policy": "Never"},
        {"priority_class": "system-node-critical", "privileged": True},
        {"urgency": 31, "privileged": True},
        {"resources": {"vcore": "500m"}},
    ],
)
def test_what_is_allowed_is_taken(decide, job):
    assert decide(jobs=[{"id": 1, "queue": "root.a", **job}], **SECTIONS)["rejected"] == []


@pytest.mark.parametrize("name", [None, ""])
def test_without_a_class_the_global_default_is_the_jobs_class(decide, name):
    row = decide(jobs=[{"id": 1, "queue": "a", "priority_class": name}], **SECTIONS).by_id[1]
    assert (row["class_value"], row["priority_class"], row["preemption_policy"]) == (
        50,
        "usual",
        "PreemptLowerPriority",
    )


def test_of_two_global_defaults_the_smaller_value_is_in_force(decide):
    classes = [{"name": n, "value": v, "global_default": True} for n, v in (("b", 7), ("c", 3), ("a", 3))]
    row = decide(jobs=[{"id": 1}], priority_classes=classes).by_id[1]
    assert (row["class_value"], row["priority_class"]) == (3, "a")


def test_without_any_class_a_job_has_0_and_no_name(decide):
    row = decide(jobs=[{"id": 1}]).by_id[1]
    assert (row["class_value"], row["priority_class"], row["preemption_policy"]) == (0, None, "PreemptLowerPriority")


def test_a_resolved_class_value_is_not_resolved_again(decide):
    job = {"id": 1, "class_value": 2**31 - 1, "priority_class": "deleted", "preemption_policy": "Never"}
    row = decide(jobs=[job], priority_classes=CLASSES).by_id[1]
    assert (row["class_value"], row["priority_class"], row["preemption_policy"]) == (2**31 - 1, "deleted", "Never")


def test_without_a_partition_a_job_goes_to_the_first_that_has_its_queue(decide):
    decision = decide(jobs=[{"id": 1, "queue": "root.a"}, {"id": 2, "queue": "root.cards"}], **SECTIONS)
    pending = {(row["partition"], row["path"]): row["pending"] for row in decision["queues"]}
    assert pending["default", "root.A"] == pending["gpu", "root.cards"] == {"vcore": 1}
    assert pending["gpu", "root.a"] == {}


def test_running_jobs_are_not_held_against_the_rules_of_submission(decide):
    job = {"id": 1, "queue": "root.team.x", "nodes": 99, "urgency": 31, "state": "running", "priority_class": "gone"}
    assert decide(jobs=[job], **SECTIONS)["rejected"] == []


def test_a_running_job_whose_names_are_unknown_is_rejected(decide):
    job = {"id": 1, "queue": "root.gone", "state": "running"}
    assert decide(jobs=[job], **SECTIONS).codes == {1: "unknown_queue"}


def test_ids_may_be_numbers_and_texts(decide):
    decision = decide(jobs=[{"id": 1}, {"id": "1"}, {"id": 0, "depends_on": [{"type": "after", "job": "1"}]}])
    assert decision["ranking"] == [1, "1"]
    assert decision.reason(0) == "dependency"


LISTED = {
    **SECTIONS,
    "qos": [{"name": "high", "priority": 100, "users": ["alice"], "groups": ["staff"]}, {"name": "free"}],
    "access": {"classes": {"tier1": {"groups": ["staff"]}}, "accounts": {"optics": {"groups": ["staff"]}}},
}


@pytest.mark.parametrize(
    ("job", "code"),
    [
        ({"user": "alice", "qos": "high"}, None),
        ({"user": "bob", "qos": "high"}, "qos_access"),
        ({"user": "bob", "groups": ["staff"], "qos": "high"}, None),
        ({"user": "bob", "qos": "free"}, None),
        ({"user": "bob", "qos": "high", "privileged": True}, None),
        ({"user": "bob", "qos": "high", "class_value": 0}, None),  # accepted long ago
        ({"user": "bob", "qos": "high", "state": "running"}, None),
        ({"qos": "high"}, None),  # nobody is named
        ({"user": "alice", "priority_class": "tier1"}, "class_access"),
        ({"user": "alice", "groups": ["staff"], "priority_class": "tier1"}, None),
        ({"user": "alice", "account": "optics"}, "account_access"),
        ({"user": "alice", "groups": ["staff"], "account": "optics"}, None),
    ],
)
@pytest.mark.parametrize("rule", ["zero", "refuse", "default"])
def test_access_lists_of_qos_classes_and_accounts_hold_where_the_document_names_a_user(decide, job, code, rule):
    sections = {**LISTED, "unknown_association": rule}
    entry = {"id": 1, "queue": "root.A", **({"account": "physics"} if job.get("user") == "alice" else {}), **job}
    codes = decide(jobs=[entry], **sections).codes
    if rule == "refuse" and job.get("user") != "alice":
        code = "unknown_association"  # bob is in no account
    if job.get("state") == "running" and rule != "refuse":
        code = None
    assert codes == ({} if code is None else {1: code})


def test_a_job_in_an_account_that_its_group_may_charge_joins_it(decide):
    job = {"id": 1, "queue": "root.A", "user": "bob", "account": "optics", "groups": ["staff"]}
    decision = decide(jobs=[job], **{**LISTED, "unknown_association": "refuse"})
    assert (decision.codes, ("optics", "bob") in decision.shares) == ({}, True)
    assert ("default", None) not in decision.shares


def test_a_new_job_above_a_limit_of_its_user_is_refused_and_one_that_was_accepted_before_waits(decide):
    limits = [{"limit": "each", "users": ["*"], "maxresources": {"gpu": 1}}]
    root = {"name": "root", "limits": limits, "queues": [{"name": "a"}]}
    queues = {"partitions": [{"name": "default", "queues": [root]}]}
    new = {"id": 1, "user": "alice", "queue": "root.a", "resources": {"vcore": 1, "gpu": 2}}
    old = new | {"id": 2, "class_value": 0}
    nodes = [{"name": "n", "capacity": {"vcore": 8, "gpu": 4}}]
    decision = decide(jobs=[new, old], queues=queues, nodes=nodes)
    assert [(one["job"], one["code"], one["field"]) for one in decision["rejected"]] == [(1, "user_limit", "resources")]
    assert [(one["id"], one["reason"].partition(":")[0]) for one in decision["jobs"]] == [(2, "user limit")]
