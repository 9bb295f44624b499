"""Every field of a submission has a limit; what is over it is refused with the field, the limit and the size."""

import contextlib
import re
import time
from pathlib import Path

import msgspec
import pytest
from builder import admission_tables

from rankd.core.admission.admission_cache import Admission
from rankd.core.admission.admit import admit
from rankd.core.admission.limit import LOOKED_UP_TEXTS, MAX_DEPENDENCIES, OWN_TEXTS
from rankd.core.admission.queue_entry import QueueEntry, queue_entries
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused
from rankd.core.model.job import Dependency, JobRequest
from rankd.core.model.queue import ChildTemplate, Limit, Partition, Queue
from rankd.core.model.setting import AdmissionSettings, Settings
from rankd.core.placement.constraint import parse_constraints
from rankd.wire.codec import decode_job

ALICE = Submitter("alice", privileged=False)
ROOT = Queue(name="root", path="root", parent=True, child_template=ChildTemplate())
TABLES = admission_tables(queues=queue_entries(Partition(root=ROOT)))
DEEP = ".".join(["root", *["q" * 31] * 31])
TERMS = ",".join(f"key{number}" for number in range(64))
LARGEST = {
    "command": ["x" * 15] * 8192,
    "name": "n" * 256,
    "queue": DEEP,
    "resources": {"vcore": 1, **{f"kind{number}": 1 for number in range(31)}},
    "constraints": TERMS,
    "depends_on": [Dependency(type="after", job=number) for number in range(1, 1001)],
    "env": {f"NAME{number:05}": "x" * 5 for number in range(8192)},
    "comment": "x" * 4096,
    "key": "k" * 256,
    "application": "a" * 256,
    "begin_at": 253_402_300_799.0,
    "nodes": 1_000_000,
}
"""The largest permitted value of fields, many parts where a field has parts."""

OVER = [
    ("command", ["x"] * 8193, "command has 8193 words, 8192 are allowed"),
    ("command", ["x" * 2**17, "y"], "command has 131073 bytes, 131072 are allowed"),
    ("env", {"A": "x" * 2**17}, "env has 131075 bytes, 131072 are allowed (admission.max_env_bytes)"),
    ("env", {"A": "ä" * 2**16}, "env has 131075 bytes"),
    ("comment", "ä" * 2049, "comment has 4098 bytes, 4096 are allowed"),
    ("queue", "q" * 1025, "queue has 1025 bytes, 1024 are allowed"),
    ("queue", "root" + ".q" * 32, "queue has 33 levels, 32 are allowed"),
    ("constraints", "k" * (2**14 + 1), "constraints has 16385 bytes, 16384 are allowed"),
    ("constraints", TERMS + ",more", "constraints has 65 terms, 64 are allowed"),
    ("constraints", f"k in ({','.join(map(str, range(257)))})", "constraints has 257 values in one term"),
    ("resources", {f"k{n}": 1 for n in range(33)}, "resources has 33 types, 32 are allowed"),
    ("depends_on", [Dependency(type="after", job=1)] * 1001, "depends_on has 1001 entries, 1000 are allowed"),
    *((field, "x" * 257, f"{field} has 257 characters, 256 are allowed")
      for field in ("name", "key", "application", "user", "account", "qos", "partition", "priority_class",
                    "preemption_policy")),
]  # fmt: skip


def admitted(tables=TABLES, **fields):
    return admit(JobRequest(**{"command": ["true"], **fields}), ALICE, tables)


@pytest.mark.parametrize(("field", "value", "message"), OVER)
def test_what_is_over_a_limit_is_refused_with_the_limit_and_its_size(field, value, message):
    with pytest.raises(Refused, match=re.escape(message)) as caught:
        admitted(**{field: value})
    assert caught.value.field == field
    assert len(caught.value.message) < 300


@pytest.mark.parametrize("field", LARGEST)
def test_the_largest_permitted_value_is_taken(field):
    assert getattr(admitted(**{field: LARGEST[field]}).request, field) == LARGEST[field]


def _seconds(action):
    """Processor time, the least of some, so that what else runs on the machine does not count."""
    times = []
    for _ in range(5):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.parametrize("field", LARGEST)
def test_the_largest_permitted_value_costs_little_to_read_and_admit(field):
    """Compared with a loop of this machine that takes about 50 ms on an idle one."""
    payload = msgspec.json.encode({"command": ["true"], field: LARGEST[field]})
    unit = _seconds(lambda: sum(number % 7 for number in range(1_000_000)))
    assert _seconds(lambda: admit(decode_job(payload), ALICE, TABLES)) < unit


@pytest.mark.parametrize(
    "text",
    [
        "a," * 8192,
        "(" * 16384,
        "a in (" + "b," * 8000 + ")",
        "a." * 8000,
        "a in" + " " * 16000,
        "!" * 16384,
        "," * 16384,
    ],
)
def test_reading_constraints_takes_time_in_proportion_to_their_length(text):
    """Of twice the text, at most four times the time: quadratic ones took a thousand times a plain read."""

    def read(some):
        with contextlib.suppress(Refused):
            parse_constraints(some)

    assert _seconds(lambda: read(text * 8)) < 32 * _seconds(lambda: read(text)) + 5e-3


def test_a_queue_path_of_dots_is_refused_at_once():
    unit = _seconds(lambda: sum(number % 7 for number in range(100_000)))
    with pytest.raises(Refused):
        admitted(queue="." * 100_000)

    def attempt():
        with contextlib.suppress(Refused):
            admitted(queue="." * 100_000)

    assert _seconds(attempt) < unit


def test_every_field_is_checked():
    """A new field of a job needs a limit: in a table of texts, or below with where it is checked."""
    elsewhere = {
        "command", "env", "resources", "depends_on",  # parts and bytes
        "priority", "urgency", "nodes", "min_nodes", "time_limit_s", "begin_at",  # ranges
        "exclusive", "requeue", "held", "cancel_if_unmet",  # booleans
        "cwd", "stdin", "stdout", "stderr",  # paths
        "script", "slurm_env",  # core.admission.script_check; a boolean
        "open_mode",  # two words
        "notify",  # core.admission.notify_check
        "interactive",  # core.admission.interactive_check
    }  # fmt: skip
    assert set(JobRequest.__struct_fields__) == elsewhere | OWN_TEXTS.keys() | LOOKED_UP_TEXTS.keys()


def test_the_limits_are_documented():
    page = (Path(__file__).parents[4] / "docs/reference/job.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|$", page.split("## Limits")[1].split("\n## ")[0], re.MULTILINE))
    for field, limit in {**OWN_TEXTS, **LOOKED_UP_TEXTS}.items():
        assert f"{limit.most:,} {limit.unit}" in rows[field]
    assert f"{MAX_DEPENDENCIES:,}" in rows["depends_on"]
    assert set(JobRequest.__struct_fields__) - set(rows) <= {
        "exclusive",
        "requeue",
        "held",
        "cancel_if_unmet",
        "slurm_env",
        "open_mode",
        "interactive",
    }


def test_what_is_remembered_of_alike_jobs_has_no_texts_of_the_first():
    admission = Admission(TABLES)
    admission.admit(JobRequest(command=["true"], env={"A": "x" * 100_000}, queue="root.a", key="k"), ALICE)
    admission = Admission(admission_tables())
    admission.admit(JobRequest(command=["true"], env={"A": "x" * 100_000}), ALICE)
    assert all(known.request.env == {} for known in admission._known.values())


# --- amounts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resources", "given"),
    [
        ({"memory": "1Gi"}, {"vcore": 1000, "memory": 2**30}),
        ({"vcore": "1m"}, {"vcore": 1}),
        ({"vcore": 1_000_000, "memory": 2**50}, {"vcore": 10**9, "memory": 2**50}),
    ],
)
def test_a_job_that_names_no_cores_gets_one(resources, given):
    assert admitted(resources=resources, queue="root.a").resources == given


@pytest.mark.parametrize("resources", [{}, {"vcore": 0}, {"vcore": "0m"}, {"vcore": 0, "memory": 1}])
def test_a_job_of_zero_cores_holds_a_tenth_of_one_where_it_is_allowed(resources):
    tables = admission_tables(settings=Settings(admission=AdmissionSettings(allow_zero_cores=True)))
    assert admitted(tables, resources=resources).resources["vcore"] == 100
    with pytest.raises(Refused, match="allow_zero_cores"):
        admitted(admission_tables(), resources=resources)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"resources": {"vcore": 1_000_001}}, "more than one node may have"),
        ({"resources": {"memory": 2**50 + 1}}, "more than one node may have"),
        ({"resources": {"memory": 2**50}, "nodes": 2000}, "on each of 2000 nodes"),
    ],
)
def test_amounts_that_no_node_may_have_are_refused(fields, message):
    with pytest.raises(Refused, match=message) as caught:
        admitted(**fields)
    assert caught.value.code == "bad_quantity"


def test_only_known_resource_types_are_taken():
    tables = admission_tables(resource_types=frozenset({"vcore", "memory", "gpu"}))
    assert admitted(tables, resources={"gpu": 1}).resources == {"vcore": 1000, "gpu": 1}
    with pytest.raises(Refused, match="unknown resource type 'gpus'; did you mean 'gpu'") as caught:
        admitted(tables, resources={"gpus": 1})
    assert (caught.value.code, caught.value.field) == ("unknown_resource", "resources.gpus")


# --- limits of users ----------------------------------------------------------------------------------------------


def entries_with(*limits):
    leaf = Queue(name="default", path="root.default", limits=limits)
    return queue_entries(Partition(root=Queue(name="root", path="root", parent=True, queues=(leaf,))))


@pytest.mark.parametrize(
    ("limit", "groups", "named"),
    [
        (Limit(users=("alice",), maxresources={"vcore": 2000}), (), "user alice in root.default is 2"),
        (Limit(users=("*",), maxresources={"vcore": 2000}), (), "user alice in root.default is 2"),
        (Limit(groups=("staff",), maxresources={"vcore": 2000}), ("staff",), "group staff in root.default is 2"),
        (Limit(users=("bob",), maxresources={"vcore": 2000}), (), None),
        (Limit(groups=("staff",), maxresources={"vcore": 2000}), ("other",), None),
        (Limit(users=("alice",), maxresources={"gpu": 2}), (), None),
        (Limit(users=("alice",), maxresources={"vcore": 3000}), (), None),
    ],
)
def test_a_job_that_its_users_limit_never_allows_is_refused(limit, groups, named):
    tables = admission_tables(queues=entries_with(limit), groups={"alice": groups})
    if named is None:
        assert admitted(tables, resources={"vcore": 3})
        return
    with pytest.raises(Refused, match=named) as caught:
        admitted(tables, resources={"vcore": 3})
    assert caught.value.code == "user_limit"
    assert admitted(tables, resources={"vcore": 1}, nodes=3, min_nodes=2)


def test_limits_of_queues_above_count_as_well():
    leaf = Queue(name="default", path="root.default")
    limit = Limit(users=("alice",), maxresources={"vcore": 2000})
    root = Queue(name="root", path="root", parent=True, queues=(leaf,), limits=(limit,))
    with pytest.raises(Refused, match="limit of user alice in root is 2"):
        admitted(admission_tables(queues=queue_entries(Partition(root=root))), resources={"vcore": 3})


@pytest.mark.parametrize(
    ("fields", "meant"),
    [({"queue": "root.defualt"}, "root.default"), ({"qos": "norml"}, "normal"), ({"account": "phyics"}, "physics")],
)
def test_an_unknown_name_suggests_the_one_that_was_meant(fields, meant):
    with pytest.raises(Refused, match=f"did you mean '{meant}'"):
        admitted(admission_tables(), **fields)


def test_queues_that_are_there_are_found_below_made_ones():
    entry = QueueEntry(partition="default", path="root.default", is_leaf=True)
    assert admitted(admission_tables(queues={("default", "root.default"): entry})).queue == "root.default"
