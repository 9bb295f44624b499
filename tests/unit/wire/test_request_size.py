"""Every list, mapping and text of every request has a limit, and the refusal says which, and how large it was."""

import inspect
import pkgutil
import re
from importlib import import_module
from pathlib import Path

import msgspec
import pytest

import rankd.wire
from rankd.core.errors import Refused
from rankd.core.model.job import Dependency, JobRequest
from rankd.core.model.priority_class import PriorityClass
from rankd.wire import message, request_size
from rankd.wire.codec import decode_of_node, decode_strict, encode
from rankd.wire.job_update import JobUpdate
from rankd.wire.message import (
    DeadLetterFilter,
    DeadLetterSelection,
    EventsRequest,
    Heartbeat,
    JobFilter,
    JobList,
    JobSelection,
    NodeSelection,
    ReportMessage,
    TableFilter,
    Take,
)
from rankd.wire.report import ReportRequest
from rankd.wire.request_size import ELSEWHERE, LIMITS, MOST_IDS, MOST_LETTERS, limits_of

SERVICES = Path(rankd.wire.__file__).parents[1] / "services"
OPEN = (msgspec.inspect.ListType, msgspec.inspect.DictType, msgspec.inspect.StrType, msgspec.inspect.RawType)


def structs(module):
    return {
        kind
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, msgspec.Struct) and kind.__module__ == module.__name__ and not kind.__name__.startswith("_")
    }


def decoded_in_services():
    """The kinds that services decode from a request's payload."""
    text = "".join(path.read_text() for path in SERVICES.rglob("*.py"))
    return set(re.findall(r"decode_(?:strict|of_node)\(payload[^,]*, (\w+)\)", text)) - {"kind"}


def inner(kind):
    """The structs in a struct's fields."""
    found = set()
    for field in msgspec.structs.fields(kind):
        found |= {one.cls for one in walk(msgspec.inspect.type_info(field.type)) if hasattr(one, "cls")}
    return {one for one in found if isinstance(one, type) and issubclass(one, msgspec.Struct)}


def walk(kind):
    yield kind
    for part in (*getattr(kind, "types", ()), *filter(None, [getattr(kind, "item_type", None)])):
        yield from walk(part)


def requests():
    names = [found.name for found in pkgutil.iter_modules(rankd.wire.__path__)]
    every = set().union(*(structs(import_module(f"rankd.wire.{name}")) for name in names))
    named = {kind for kind in every if kind.__name__ in decoded_in_services()}
    found = {kind for kind in every if kind.__struct_config__.forbid_unknown_fields} | named
    found |= {JobRequest, PriorityClass}
    while more := set().union(*(inner(kind) for kind in found)) - found:
        found |= more
    return sorted(found, key=lambda kind: kind.__name__)


def without_limit(kind):
    """Fields that may be of any size."""
    for field in msgspec.structs.fields(kind):
        sized = [one for one in walk(msgspec.inspect.type_info(field.type)) if isinstance(one, OPEN)]
        free = [one for one in sized if getattr(one, "max_length", None) is None]
        if free and field.name not in limits_of(kind) and field.name not in ELSEWHERE.get(kind, ()):
            yield field.name


def test_the_walk_finds_the_requests_and_their_parts():
    found = set(requests())
    assert {DeadLetterSelection, JobList, JobUpdate, Dependency, Take, Heartbeat, message.Report} <= found
    assert message.Taken not in found

    class Unbounded(msgspec.Struct):
        names: list[str] | None = None
        text: str = ""
        number: int = 0

    assert list(without_limit(Unbounded)) == ["names", "text"]


@pytest.mark.parametrize("kind", requests(), ids=lambda kind: kind.__name__)
def test_every_field_of_a_request_has_a_limit(kind):
    assert list(without_limit(kind)) == []


@pytest.mark.parametrize("kind", [*LIMITS, *ELSEWHERE], ids=lambda kind: kind.__name__)
def test_limits_are_of_fields_that_exist(kind):
    assert {*LIMITS.get(kind, ()), *ELSEWHERE.get(kind, ())} <= set(kind.__struct_fields__)


@pytest.mark.parametrize(
    ("kind", "request_", "code", "field", "limit", "size"),
    [
        (DeadLetterSelection, {"ids": [1] * 1_001}, "too_many", "ids", "1000", "1001"),
        (DeadLetterFilter, {"users": ["x"] * 1_001}, "too_many", "users", "1000", "1001"),
        (JobSelection, {"ids": [1] * 100_001}, "too_many", "ids", "100000", "100001"),
        (JobSelection, {"filter": {"ids": [1] * 100_001}}, "too_many", "filter.ids", "100000", "100001"),
        (JobFilter, {"names": ["x" * 1_025]}, "too_long", "names", "1024", "1025"),
        (JobList, {"names": ["x"] * 1_001}, "too_many", "names", "1000", "1001"),
        (EventsRequest, {"jobs": [1] * 100_001}, "too_many", "jobs", "100000", "100001"),
        (EventsRequest, {"users": ["x"] * 1_001}, "too_many", "users", "1000", "1001"),
        (TableFilter, {"after": ["x"] * 5}, "too_many", "after", "4", "5"),
        (NodeSelection, {"node": "x" * 254}, "too_long", "node", "253", "254"),
        (NodeSelection, {"nodes": ["x" * 254]}, "too_long", "nodes", "253", "254"),
        (NodeSelection, {"reason": "x" * 1_001}, "too_long", "reason", "1000", "1001"),
        (JobUpdate, {"comment": "é" * 2_049}, "too_long", "comment", "4096", "4098"),
        (JobUpdate, {"resources": {"x" * 254: 1}}, "too_long", "resources", "253", "254"),
        (JobUpdate, {"resources": {"vcore": "1" * 65}}, "too_long", "resources", "64", "65"),
        (
            JobUpdate,
            {"depends_on": [{"type": "after", "job": "x" * 257}]},
            "too_long",
            "depends_on[0].job",
            "256",
            "257",
        ),
        (ReportRequest, {"kind": "whatif", "weights": {"x" * 65: 1}}, "too_long", "weights", "64", "65"),
        (ReportRequest, {"kind": "whatif", "files": dict.fromkeys("abcde", "")}, "too_many", "files", "4", "5"),
    ],
)
def test_what_is_over_its_limit_is_refused_with_field_limit_and_size(kind, request_, code, field, limit, size):
    with pytest.raises(Refused) as refused:
        decode_strict(encode(request_), kind)
    assert (refused.value.code, refused.value.field) == (code, field)
    assert {field, limit, size} <= set(re.findall(r"[\w.\[\]]+", refused.value.message))


@pytest.mark.parametrize(
    ("kind", "request_", "field"),
    [
        (Take, {"agent": "n", "known": [1] * 100_001}, "known"),
        (Take, {"agent": "n" * 254}, "agent"),
        (Heartbeat, {"nodes": ["n"], "key": "x" * 257}, "key"),
        (Heartbeat, {"nodes": ["n"] * 100_001}, "nodes"),
        (Heartbeat, {"nodes": ["n"], "unable": "x" * 501}, "unable"),
        (Heartbeat, {"nodes": ["n"], "health": "x" * 501}, "health"),
        (ReportMessage, {"reports": [{"allocation": 1, "job": 1, "kind": "started", "at": 1}] * 1_001}, "reports"),
    ],
)
def test_agents_have_limits_too(kind, request_, field):
    with pytest.raises(Refused) as refused:
        decode_of_node(encode(request_), kind)
    assert refused.value.field == field


def test_what_is_at_its_limit_is_accepted():
    ids = list(range(MOST_IDS))
    assert decode_strict(encode({"ids": ids}), JobSelection).ids == ids
    assert len(decode_strict(encode({"ids": ids[:MOST_LETTERS]}), DeadLetterSelection).ids) == MOST_LETTERS


def test_the_reference_names_every_field_with_a_limit():
    text = (Path(__file__).parents[3] / "docs" / "reference" / "bus.md").read_text(encoding="utf-8")
    text = text[text.index("### Limits of requests") : text.index("## Enqueueing")]
    own = {name for kind in LIMITS if kind not in {JobFilter, JobUpdate, Dependency} for name in LIMITS[kind]}
    assert own <= set(re.findall(r"`(\w+)`", text))


def test_numbers_of_a_list_are_not_looked_at_one_by_one(monkeypatch):
    """100,000 of them took 43 ms of the intake's event loop, in which nobody else was answered."""
    looked = []
    check = request_size._check
    monkeypatch.setattr(request_size, "_check", lambda *given: looked.append(given) or check(*given))
    decode_strict(encode({"ids": list(range(MOST_IDS))}), JobSelection)
    assert len(looked) == 1
