"""Jobs that are admitted alike have the same outcome as each by itself."""

from __future__ import annotations

from builder import admission_tables
from hypothesis import given
from hypothesis import strategies as st

from rankd.core.admission.admission_cache import Admission
from rankd.core.admission.admit import QueueEntry, admit
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused
from rankd.core.model.job import Dependency, JobRequest

QUEUES = {
    ("default", path.lower()): QueueEntry(partition="default", path=path, is_leaf=path != "root", maximum=maximum)
    for path, maximum in (("root", {}), ("root.default", {}), ("root.Small", {"vcore": 2000}))
}
TABLES = admission_tables(queues=QUEUES, partitions=("default",))


def few(*values):
    return st.sampled_from(values)


REQUESTS = st.builds(
    JobRequest,
    command=few(["true"], ["sleep", "1"], [], ["a\0b"]),
    name=few(None, "one", "n" * 300),
    user=few(None, "alice", "bob"),
    queue=few(None, "root.default", "small", "root", "nowhere"),
    qos=few(None, "normal", "high", "nope"),
    urgency=few(0, 16, 20, 99),
    held=st.booleans(),
    nodes=few(1, 2, 0),
    min_nodes=few(None, 1, 3),
    resources=few({"vcore": 1}, {"vcore": 1.0}, {"vcore": "2", "memory": "1Gi"}, {"vcore": -1}, {}),
    constraints=few(None, "a=b", "a=b=c"),
    time_limit_s=few(None, 60.0, -1.0),
    begin_at=few(None, 1.0, float("nan")),
    depends_on=few([], [Dependency(type="afterok", job=1)], [Dependency(type="afterok", job=0)]),
    array=few(None, None, None, "0-3"),
    env=few({}, {"A": "b"}, {"": "x"}),
    key=few(None, "k"),
)
SUBMITTERS = few(Submitter("alice", privileged=False), Submitter("bob", privileged=True))


def outcome(attempt, *arguments):
    try:
        return attempt(*arguments)
    except Refused as refusal:
        return refusal.code, refusal.message, refusal.field, refusal.status


@given(st.lists(st.tuples(REQUESTS, SUBMITTERS), max_size=20))
def test_what_is_remembered_changes_nothing(jobs):
    admission = Admission(TABLES)
    for request, submitter in jobs:
        assert outcome(admission.admit, request, submitter) == outcome(admit, request, submitter, TABLES)


def test_jobs_of_one_kind_share_what_was_found():
    admission = Admission(TABLES)
    alice = Submitter("alice", privileged=False)
    first, second = (admission.admit(JobRequest(command=["true"], name=name), alice) for name in ("one", "two"))
    assert first.resources is second.resources
    assert (first.request.name, second.request.name) == ("one", "two")
