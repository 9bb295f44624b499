"""The configuration that ships: no name that an ordinary user may give puts a job before others' jobs."""

import itertools
import json
from pathlib import Path

import pytest

from rankd.config.configuration import load_configuration
from rankd.config.evaluation import Evaluator
from rankd.core.admission.priority_class import ClassTable
from rankd.core.model.queue import walk_queues

CONFIG = Path(__file__).parents[2] / "config"
MOST_POINTS = 11_000
"""What a job of one core has that waits since now, of a user who has used nothing: 10,000 of fair share, and others."""
MOST_MORE = 200
"""Points that a free choice gives at most over a job that names nothing: 2 % of the best fair share."""
CLOSED = {"qos": {"high"}, "priority_class": {"high", "urgent"}, "queue": {"root.urgent"}}


@pytest.fixture(scope="module")
def configuration():
    return load_configuration(CONFIG)


def combinations(configuration):
    """Each combination of a class, a QoS and a queue; None: not named."""
    classes = [given.name for given in ClassTable.of(configuration.classes).listed()]
    queues = [
        queue.path
        for partition in configuration.partitions
        for queue in walk_queues(partition.root)
        if not queue.queues and not queue.parent
    ]
    qos = [one.name for one in configuration.settings.qos]
    named = itertools.product([None, *classes], [None, *qos], [None, *queues])
    return [dict(zip(("priority_class", "qos", "queue"), one, strict=True)) for one in named]


def decided(configuration, fields):
    """One decision on a job of each combination, all of the same new user, with the given fields."""
    jobs = [
        {"id": number, "user": "eve", "command": ["true"], **fields, **named}
        for number, named in enumerate(combinations(configuration))
    ]
    document = {"now": 1.0, "unknown_association": "default", "jobs": jobs}
    return jobs, Evaluator(configuration).evaluate(json.dumps(document).encode())


def closed_by(job):
    system = (job["priority_class"] or "").startswith("system-")
    return system or any(job[field] in names for field, names in CLOSED.items())


def test_no_free_choice_gives_more_points_than_the_usual(configuration):
    jobs, result = decided(configuration, {})
    refused = {rejection.job for rejection in result.rejected}
    assert refused == {job["id"] for job in jobs if closed_by(job)}
    assert {rejection.code for rejection in result.rejected} == {
        "queue_access",
        "qos_access",
        "class_access",
        "system_priority_class",
    }
    points = {row.id: row.priority for row in result.jobs}
    assert len(points) == len(jobs) - len(refused) > 10
    assert jobs[0] == {"id": 0, "user": "eve", "command": ["true"], "priority_class": None, "qos": None, "queue": None}
    assert max(points.values()) <= min(MOST_POINTS, points[0] + MOST_MORE)


def test_no_free_choice_comes_before_a_job_that_names_nothing(configuration):
    """Among queues, offsets count as well: no queue that is open to everyone has a positive one."""
    for partition in configuration.partitions:
        for queue in walk_queues(partition.root):
            if queue.path not in CLOSED["queue"]:
                assert queue.properties.priority_offset <= 0, queue.path


def test_operators_and_administrators_may_use_all_but_system_classes(configuration):
    _jobs, result = decided(configuration, {"groups": ["operators"]})
    assert {rejection.code for rejection in result.rejected} == {"system_priority_class"}
    assert decided(configuration, {"privileged": True})[1].rejected == []


def test_urgency_is_no_free_choice_either(configuration):
    _, result = decided(configuration, {"urgency": 17})
    assert "urgency_not_allowed" in {rejection.code for rejection in result.rejected}
    assert result.jobs == []


def test_an_empty_group_of_operators_is_there_to_be_filled(configuration):
    assert configuration.groups == {}
    assert configuration.warnings == ()
