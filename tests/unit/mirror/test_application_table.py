from builder import NOW

from rankd.mirror.application_table import ApplicationTable
from rankd.store.feed.application import ApplicationRow


def row(id_, name, *, queue=3, at=NOW, revision=1):
    return ApplicationRow(id=id_, queue=queue, name=name, created_at=at, revision=revision)


def test_applications_are_ordered_by_name_and_then_by_id():
    table = ApplicationTable()
    table.update([row(1, "b"), row(2, "a"), row(4, "a")])
    found = table.with_use({}, {})
    assert found.id_places.tolist() == [0, 2, 0, 0, 1]
    assert found.queues.tolist() == [-1, 3, 3, -1, 3]


def test_an_application_that_begins_again_replaces_itself():
    table = ApplicationTable()
    table.update([row(1, "a", revision=5)])
    table.update([row(1, "a", at=NOW + 9, revision=7), row(2, "b", revision=6)])
    assert table.revision == 7
    assert table.with_use({}, {}).created_at.tolist() == [0, NOW + 9, NOW]


def test_use_and_states_are_those_of_now():
    table = ApplicationTable()
    assert table.revision == -1
    table.update([])
    assert table.revision == -1
    table.update([row(1, "a")])
    assert table.with_use({1: {"vcore": 3}}, {1: "starting"}).used == {1: {"vcore": 3}}
    assert table.with_use({}, {}).states == {}


def test_an_application_with_the_revision_of_one_that_is_known_is_read_too():
    """One that began again in the transaction before has the same one; the prioritizer ended at its jobs."""
    table = ApplicationTable()
    table.update([row(1, "a", revision=5)])
    later = row(2, "b", revision=5)
    assert later.revision > table.read_after
    before = table.with_use({}, {})
    table.update([row(1, "a", revision=5)])
    assert table.with_use({}, {}).created_at is before.created_at, "what is known is not built again"
    table.update([row(1, "a", revision=5), later])
    assert table.with_use({}, {}).created_at.tolist() == [0, NOW, NOW]
    assert table.revision == 5
