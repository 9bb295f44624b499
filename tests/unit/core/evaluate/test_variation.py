"""Other priorities of QoS and offsets of queues in a document; everything else stays as it was."""

import msgspec
import pytest
from builder import NOW
from msgspec import Raw

from rankd.core.errors import Refused
from rankd.core.evaluate.document import Document, JobEntry
from rankd.core.evaluate.variation import Variation, configuration_lines, varied_by
from rankd.core.model.job import State
from rankd.core.model.setting import Qos

TREE = {
    "partitions": [
        {"name": "default", "queues": [{"name": "root", "queues": [
            {"name": "a", "properties": {"priority.offset": "7", "priority.policy": "default"}}, {"name": "B"}]}]},
        {"name": "gpu", "queues": [{"name": "root", "queues": [{"name": "a"}]}]},
    ]
}  # fmt: skip


def document(**fields):
    return Document(now=NOW, queues=Raw(msgspec.json.encode(TREE)), **fields)


def leaves(changed):
    tree = msgspec.json.decode(changed.queues)
    return [partition["queues"][0]["queues"] for partition in tree["partitions"]]


def test_a_qos_has_another_priority_and_keeps_the_rest():
    before = document(qos=[Qos(name="low", usage_factor=2.0), Qos(name="high", priority=9)])
    changed = varied_by(before, Variation(qos={"low": 3}))
    assert changed.qos == [Qos(name="low", usage_factor=2.0, priority=3), Qos(name="high", priority=9)]
    assert before.qos[0].priority == 0


def test_a_queue_has_another_offset_in_each_partition_that_has_it():
    first, second = leaves(varied_by(document(), Variation(queues={"root.A": -5, "root.b": 1})))
    assert first[0]["properties"] == {"priority.offset": "-5", "priority.policy": "default"}
    assert first[1]["properties"] == {"priority.offset": "1"}
    assert second[0]["properties"] == {"priority.offset": "-5"}


@pytest.mark.parametrize(
    ("variation", "code"),
    [
        (Variation(qos={"x": 1}), "unknown_qos"),
        (Variation(queues={"root.x": 1}), "unknown_queue"),
        (Variation(classes={"x": 1}), "unknown_priority_class"),
    ],
)
def test_what_is_not_configured_is_refused(variation, code):
    with pytest.raises(Refused) as refused:
        varied_by(document(), variation)
    assert refused.value.code == code


def test_nothing_else_changes():
    before = document(qos=[Qos(name="low")])
    changed = varied_by(before, Variation())
    assert (changed.qos, changed.queues, changed.jobs) == (before.qos, before.queues, before.jobs)


def test_the_lines_name_the_file_and_the_values():
    variation = Variation(weights={"age": 5.0}, qos={"high": 5}, queues={"root.a": -5})
    (toml, first), (queues, second) = configuration_lines(variation)
    assert (toml, queues) == ("rankd.toml", "queues.yaml")
    assert first == '[priority.weights]\nage = 5\n\n[[qos]]\nname = "high"\npriority = 5'
    assert second == "# root.a\n  properties:\n    priority.offset: -5"
    assert configuration_lines(Variation()) == []


def test_a_class_has_another_value_and_so_have_its_waiting_jobs():
    rows = [{"name": "high", "value": 1000, "description": "d"}, {"name": "low", "value": -1000}]
    jobs = [
        JobEntry(id=1, priority_class="high", class_value=1000),
        JobEntry(id=2, priority_class="low", class_value=-1000),
        JobEntry(id=3, priority_class="high", class_value=1000, state=State.RUNNING),
        JobEntry(id=4, priority_class="high"),  # a new one gets the value of the table
    ]
    before = document(priority_classes=[Raw(msgspec.json.encode(row)) for row in rows], jobs=jobs)
    changed = varied_by(before, Variation(classes={"high": 5}))
    assert [msgspec.json.decode(row) for row in changed.priority_classes] == [rows[0] | {"value": 5}, rows[1]]
    assert [job.class_value for job in changed.jobs] == [5, -1000, 1000, None]


def test_the_lines_of_a_class_say_how_its_waiting_jobs_get_the_value():
    (file, text), (kind, commands) = configuration_lines(Variation(classes={"high": 5}))
    assert (file, text, kind) == ("priorityclasses.yaml", "# high\nvalue: 5", "commands")
    assert commands.splitlines() == [
        "rankd class delete --admin high",
        "rankd class create --admin high --value 5",
        "rankd update --admin JOB --class high  # each job that waits",
    ]
