import pytest

from rankd.config.queues import read_queues
from rankd.core.admission.queue_administration import AdministeredQueues
from rankd.core.admission.queue_entry import entries_with, made_queue, queue_entries

TREE = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: open}
          - name: lab
            adminacl: "ann staff"
            queues: [{name: Gpu, adminacl: "bob"}, {name: users, parent: true, childtemplate: {maxapplications: 5}}]
"""


@pytest.fixture
def entries():
    [partition] = read_queues(TREE).partitions
    return queue_entries(partition)


@pytest.mark.parametrize(
    ("user", "groups", "administered"),
    [
        ("ann", (), {"root.lab", "root.lab.Gpu", "root.lab.users"}),
        ("carol", ("staff",), {"root.lab", "root.lab.Gpu", "root.lab.users"}),
        ("bob", (), {"root.lab.Gpu"}),
        ("dave", ("other",), set()),
    ],
)
def test_a_list_counts_at_its_queue_and_below(entries, user, groups, administered):
    queues = AdministeredQueues(entries, user, groups)
    assert {entry.path for entry in entries.values() if queues.has("default", entry.path)} == administered
    assert queues.is_any() is bool(administered)
    assert not queues.has("default", "root.gone")
    assert not queues.has("other", "root.lab")


def test_who_may_submit_administers_nothing(entries):
    assert not AdministeredQueues(entries, "dave").is_any()
    assert not AdministeredQueues().has("default", "root.lab")


def test_a_queue_that_a_job_makes_has_the_administrators_above(entries):
    made = made_queue("lab.users.eve", ["default"], entries)
    assert made.admins.allows("ann", ())
    later = entries_with(made.made, "default", entries)
    assert AdministeredQueues(later, "ann").has("default", "root.lab.users.eve")
