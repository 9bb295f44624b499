"""Documents whose jobs make queues, and documents with access lists: as a submission to the daemon."""

import pytest

TEMPLATE = {"properties": {"priority.offset": "100"}, "resources": {"max": {"vcore": "4"}}}


@pytest.fixture
def queues(tree):
    tenants = {"name": "tenants", "parent": True, "childtemplate": TEMPLATE}
    return tree({"name": "default"}, tenants, {"name": "plain", "parent": True})


def test_a_job_makes_its_queue_with_the_template(decide, queues):
    decision = decide(queues=queues, jobs=[{"id": 1, "queue": "tenants.new"}, {"id": 2}], priority={"policy": "class"})
    assert decision["rejected"] == []
    assert list(decision.by_path) == ["root", "root.default", "root.tenants", "root.tenants.new", "root.plain"]
    assert (decision.by_path["root.tenants.new"]["priority"], decision.by_path["root"]["priority"]) == (100, 100)
    assert decision["ranking"] == [1, 2]


def test_jobs_that_write_a_queue_differently_share_it_as_the_first_has_written_it(decide, queues):
    jobs = [{"id": n, "queue": name} for n, name in enumerate(["root.tenants.New", "TENANTS.NEW", "tenants.new"])]
    decision = decide(queues=queues, jobs=jobs)
    assert decision["queue_order"]["root.tenants"] == ["root.tenants.New"]
    assert decision["application_order"] == {"root.tenants.New": [0, 1, 2]}


def test_a_refused_job_makes_no_queue(decide, queues):
    jobs = [
        {"id": 1, "queue": "tenants.never", "nodes": 0},
        {"id": 2, "queue": "tenants.large", "resources": {"vcore": 5}},
        {"id": 3, "queue": "tenants.made", "state": "completed"},
        {"id": 4, "queue": "tenants.real"},
    ]
    decision = decide(queues=queues, jobs=jobs)
    assert decision.codes == {1: "bad_nodes", 2: "queue_quota"}
    assert [path for path in decision.by_path if path.startswith("root.tenants.")] == ["root.tenants.real"]


@pytest.mark.parametrize(
    ("queue", "code"),
    [
        ("root.plain.x", "unknown_queue"),
        ("root.default.x", "unknown_queue"),
        ("root.tenants", "parent_queue"),
        ("root.tenants.a b", "bad_queue_name"),
    ],
)
def test_where_no_queue_can_be_made_the_job_is_rejected(decide, queues, queue, code):
    assert decide(queues=queues, jobs=[{"id": 1, "queue": queue}]).codes == {1: code}


def test_an_application_may_be_in_a_queue_that_first_use_makes(decide, queues):
    application = {"id": "app", "queue": "root.tenants.new", "created_at": 5.0, "pending": {"vcore": 1}}
    decision = decide(queues=queues, applications=[application])
    assert decision["queue_order"]["root.tenants"] == ["root.tenants.new"]


def test_two_partitions_make_it_in_the_first_that_allows_it(decide):
    root = [{"name": "root", "parent": True}]
    second = [{"name": "root", "queues": [{"name": "t", "parent": True, "childtemplate": TEMPLATE}]}]
    queues = {"partitions": [{"name": "one", "queues": root}, {"name": "two", "queues": second}]}
    jobs = [{"id": 1, "queue": "t.x"}, {"id": 2, "queue": "t.x", "partition": "one"}, {"id": 3, "queue": "root.t.y"}]
    decision = decide(queues=queues, jobs=jobs)
    assert decision.codes == {2: "unknown_queue"}
    assert decision["queue_order"] == {"two:root": ["root.t"], "two:root.t": ["root.t.x", "root.t.y"]}


# --- access ------------------------------------------------------------------------------------------------------


@pytest.fixture
def closed(tree):
    return tree({"name": "staff", "submitacl": "alice dev"}, {"name": "all", "submitacl": "*"}, {"name": "shut"})


@pytest.mark.parametrize(
    ("job", "code"),
    [
        ({"queue": "root.staff", "user": "alice"}, None),
        ({"queue": "root.staff", "user": "bob", "groups": ["dev", "x"]}, None),
        ({"queue": "root.staff", "user": "bob", "groups": ["x"]}, "queue_access"),
        ({"queue": "root.staff", "user": "bob"}, "queue_access"),
        ({"queue": "root.staff", "user": "bob", "privileged": True}, None),
        ({"queue": "root.staff", "user": "bob", "class_value": 0}, None),  # taken long ago
        ({"queue": "root.staff", "user": "bob", "state": "running"}, None),
        ({"queue": "root.staff"}, None),  # nobody is named
        ({"queue": "root.all", "user": "bob"}, None),
        ({"queue": "root.shut", "user": "alice"}, "queue_access"),
    ],
)
def test_access_lists_hold_where_the_document_says_who_submits(decide, closed, job, code):
    decision = decide(queues=closed, jobs=[{"id": 1, **job}])
    assert decision.codes == ({} if code is None else {1: code})
