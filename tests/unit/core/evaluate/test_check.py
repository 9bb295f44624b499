"""Faults between the sections of a document are all found, each with its path."""

import msgspec
import pytest

from rankd.core.evaluate.check import check
from rankd.core.evaluate.document import Document


def faults(ranges=None, provided=("age",), **fields):
    priority = {"policy": "multifactor", "weights": {"age": 1.0}}
    document = msgspec.convert({"now": 0.0, "priority": priority, **fields}, Document)
    return [problem.path for problem in check(document, ranges or {}, set(provided))]


JOB = {"id": 1, "user": "ann"}


@pytest.mark.parametrize(
    ("fields", "paths"),
    [
        ({}, []),
        ({"jobs": [JOB, JOB]}, ["$.jobs[1].id"]),
        ({"nodes": [{"name": "n", "capacity": {}}] * 2}, ["$.nodes[1].name"]),
        ({"allocations": [{"job": 1, "node": "n"}]}, ["$.allocations[0].job", "$.allocations[0].node"]),
        ({"jobs": [{**JOB, "factors": {"age": 1.5}}]}, ["$.jobs[0].factors.age"]),
        ({"jobs": [{**JOB, "sequence": 2}, {"id": 2, "user": "a", "sequence": 2}]}, ["$.jobs[1].sequence"]),
        ({"associations": [{"account": "a", "priority": 2**53 + 1}]}, ["$.associations[0].priority"]),
        ({"priority": {"policy": "multifactor", "weights": {}}}, ["$.priority.weights"]),
        ({"priority": {"policy": "multifactor", "weights": {"x": 1.0}}}, ["$.priority.weights.x"]),
        ({"scheduling": {"backfill": "strict", "backfill_order": "shortest"}}, ["$.scheduling.backfill_order"]),
        ({"priority": {"policy": "multifactor", "weights": {"age": 1.0}, "fairshare": {"billing": {"gpu": -1}}}},
         ["$.priority.fairshare.billing.gpu"]),
    ],
)  # fmt: skip
def test_each_fault_is_found_where_it_is(fields, paths):
    assert faults(**fields) == paths


def test_a_factor_without_a_plugin_counts_if_every_pending_job_gives_a_value():
    weights = {"priority": {"policy": "multifactor", "weights": {"x": 1.0}}}
    given = {**JOB, "factors": {"x": 0.5}}
    assert faults(jobs=[given], **weights) == []
    assert faults(jobs=[given, {"id": 2, "user": "a"}], **weights) == ["$.priority.weights.x"]


def test_a_plugins_own_range_counts():
    assert faults({"age": (-1.0, 2.0)}, jobs=[{**JOB, "factors": {"age": 1.5}}]) == []


GPU_JOB = {**JOB, "state": "running", "resources": {"vcore": 1, "gpu": 1}}
GPU_NODE = {"name": "n", "devices": [{"model": "a100", "id": "g0", "index": 0}]}
HELD = {"job": 1, "node": "n", "devices": {"n": ["g0"]}}


@pytest.mark.parametrize(
    ("fields", "paths"),
    [
        ({"allocations": [HELD]}, []),
        ({"allocations": [{"job": 1, "node": "n"}]}, ["$.allocations[0].devices"]),
        ({"allocations": [HELD, HELD]}, ["$.allocations[1].devices"]),
        ({"allocations": [{**HELD, "devices": {"n": ["g0", "g0"]}}]}, ["$.allocations[0].devices"] * 2),
        ({"allocations": [{**HELD, "devices": {"n": ["g0"], "m": ["g1"]}}]}, ["$.allocations[0].devices"]),
        ({"allocations": [HELD], "nodes": [{"name": "n"}]}, ["$.allocations[0].devices"]),
        ({"allocations": [{"job": 1, "node": "n"}], "nodes": [{"name": "n", "capacity": {"gpu": 1}}]}, []),
        ({"nodes": [{"name": "n", "devices": GPU_NODE["devices"] * 2}]}, ["$.nodes[0].devices"]),
        ({"nodes": [{"name": "n", "devices": [{"model": "A100", "id": "g0", "index": 0}]}]}, ["$.nodes[0].devices"]),
    ],
)
def test_devices_are_named_by_who_holds_them(fields, paths):
    assert faults(**{"jobs": [GPU_JOB], "nodes": [GPU_NODE], **fields}) == paths
