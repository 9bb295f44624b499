"""Names and their ids: queues, QoS, associations, classes; recorded configurations; what adapters gave."""

import pytest
from builder import NOW, accepted, configuration, leaf, parent
from contract.world import ADAPTER, CLASS
from msgspec.structs import replace

from rankd.config.change import Change
from rankd.core.adapter.input import Input, QosRow
from rankd.core.errors import Refused
from rankd.core.model.access import AccessList
from rankd.core.model.association import Association
from rankd.core.model.priority_class import PriorityClass
from rankd.core.model.queue import Partition, QueueProperties
from rankd.core.model.setting import AdmissionSettings, Qos
from rankd.store.record.adapter import StoredInput, in_force, inputs_revision, stored_inputs
from rankd.store.record.adapter_result import names_came, register_adapters, save_failure, save_input, save_reading
from rankd.store.record.catalog import (
    add_association,
    forget_idle_queues,
    made_leaves,
    read_catalog,
    store_queues,
    sync_catalog,
    sync_names,
)
from rankd.store.record.catalog_version import catalog_version, raise_version
from rankd.store.record.configuration import (
    Recorded,
    latest_recorded,
    newest_configuration,
    newest_recorded,
    recorded,
    recorded_before,
    recorded_for_ranking,
)
from rankd.store.record.made_queue import LiveQueues, queue_of
from rankd.store.record.new_configuration import record
from rankd.store.record.new_user_group import save_user_groups
from rankd.store.record.priority_class import change_classes, read_access, read_classes, sync_classes, write_access
from rankd.store.record.queue_event import note_changes, note_made, snapshot
from rankd.store.record.user_group import recorded_groups, with_recorded_groups


def with_queues(*queues, **settings):
    return configuration(partitions=(Partition(root=parent("root", *queues)),), **settings)


async def events(store):
    rows = sorted(await store.rows("queue_events"), key=lambda row: row["id"])
    return [(row["path"], row["event"]) for row in rows]


# --- the catalog --------------------------------------------------------------------------------------------


async def test_the_same_configuration_changes_nothing(store):
    first = await store.configure()
    before = {table: await store.rows(table) for table in ("queues", "associations", "qos", "queue_events")}
    assert await store.configure(now=NOW + 5) == first
    assert {table: await store.rows(table) for table in before} == before


async def test_ids_stay_where_names_come_and_go(store):
    first = await store.configure(with_queues(leaf("root.a"), leaf("root.b")))
    await store.configure(with_queues(leaf("root.B", properties=QueueProperties(priority_offset=5))))
    last = await store.configure(with_queues(leaf("root.a"), leaf("root.b")))
    assert last.queues == first.queues
    found = await events(store)
    assert found[:3] == [("root", "made"), ("root.a", "made"), ("root.b", "made")]
    assert [event for path, event in found if path == "root.a"] == ["made", "removed", "made"]


async def test_a_removed_queue_is_known_as_removed(store):
    await store.configure(with_queues(leaf("root.a"), leaf("root.b")))
    catalog = await store.configure(with_queues(leaf("root.a")))
    assert catalog.removed == {("default", "root.b")}
    assert await store.read(read_catalog) == catalog


async def test_qos_and_associations_take_the_configured_values_and_usage_stays(store):
    users = [Association(account="physics"), Association(account="physics", user="alice", usage=7.0, usage_at=NOW)]
    await store.configure(configuration(associations=users, qos=[Qos(name="normal", priority=1)]))
    users[1] = replace(users[1], shares=4.0, usage=100.0, default=True)
    catalog = await store.configure(configuration(associations=users, qos=[Qos(name="normal", priority=2)]))
    [alice] = await store.rows("associations", user="alice")
    assert (alice["shares"], alice["usage"], alice["is_default"]) == (4.0, 7.0, 1)
    assert [row["priority"] for row in await store.rows("qos", name="normal")] == [2]
    assert catalog.default_accounts == {"alice": "physics"}


async def test_an_association_of_a_user_who_is_not_configured_is_added_once(store):
    await store.configure()
    first = await store.write(add_association, "physics", "eve", 1.0, NOW)
    assert await store.write(add_association, "physics", "eve", 9.0, NOW) == first
    assert (await store.read(read_catalog)).associations["physics", "eve"] == first
    assert [row["shares"] for row in await store.rows("associations", user="eve")] == [1.0]


async def test_a_listed_account_counts_before_one_that_the_user_joined_by_a_job(store):
    accounts = [Association(account="default"), Association(account="physics")]
    await store.configure(configuration(associations=accounts))
    await store.write(add_association, "default", "eve", 1.0, NOW)
    assert (await store.read(read_catalog)).default_accounts == {"eve": "default"}
    accounts.append(Association(account="physics", user="eve"))
    assert (await store.configure(configuration(associations=accounts))).default_accounts == {"eve": "physics"}


async def test_names_can_be_brought_in_without_asking_the_adapters_again(store):
    assert await store.write(sync_names, configuration(), NOW) == await store.write(sync_catalog, configuration(), NOW)


# --- queues made on first use -------------------------------------------------------------------------------


def job_for(path, user="alice"):
    return accepted(user, queue=path, made=(leaf(path),))


async def test_a_queue_made_on_first_use_is_there_until_it_is_idle(store):
    given = with_queues(leaf("root.a"), parent("root.t"))
    live = LiveQueues(given, await store.configure(given))
    id_ = await store.write(queue_of, job_for("root.t.alice"), store.catalog, NOW)
    assert await store.write(queue_of, job_for("root.t.alice"), store.catalog, NOW) == id_
    assert await store.read(made_leaves) == [("default", "root.t.alice")]
    version = await store.read(catalog_version)
    assert await store.read(live.refresh, version)
    assert not await store.read(live.refresh, version)
    assert live.ids["default", "root.t.alice"] == id_
    await store.write(forget_idle_queues, NOW + 1)
    assert await store.read(made_leaves) == []
    assert await store.read(live.refresh, await store.read(catalog_version))
    assert ("default", "root.t.alice") in live.ids
    assert (await events(store))[-2:] == [("root.t.alice", "made"), ("root.t.alice", "removed")]


async def test_a_queue_with_a_pending_job_is_not_idle(store):
    await store.configure(with_queues(leaf("root.a"), parent("root.t")))
    await store.submit("alice", queue="root.t.alice", made=(leaf("root.t.alice"),))
    await store.write(forget_idle_queues, NOW + 1)
    assert await store.read(made_leaves) == [("default", "root.t.alice")]


async def test_a_leaf_that_has_become_a_parent_takes_no_job(store):
    await store.configure(with_queues(parent("root.t")))
    await store.write(queue_of, job_for("root.t.a"), store.catalog, NOW)
    below = accepted("bob", queue="root.t.a.b", made=(parent("root.t.a"), leaf("root.t.a.b")))
    with pytest.raises(Refused, match="has become a parent queue"):
        await store.write(queue_of, below, store.catalog, NOW)


async def test_stored_queues_and_their_events(store):
    before = await store.read(snapshot)
    await store.write(store_queues, [("default", leaf("root.x", max={"vcore": 1000}), False)])
    await store.write(note_changes, before, NOW)
    await store.write(note_made, "default", ["root.y"], "alice", NOW)
    await store.write(store_queues, [])
    assert list(await store.read(snapshot)) == [("default", "root.x")]
    assert await events(store) == [("root.x", "made"), ("root.y", "made")]


# --- priority classes ---------------------------------------------------------------------------------------


async def test_a_configuration_adds_classes_and_changes_none(store):
    await store.write(sync_classes, [CLASS])
    await store.write(sync_classes, [replace(CLASS, description="second")])
    [found] = [given for given in await store.read(read_classes) if given.name == "high"]
    assert found == CLASS


async def test_classes_are_created_changed_and_deleted_by_one_operation(store):
    default = PriorityClass(name="usual", value=5, global_default=True)
    await store.write(change_classes, lambda table: table.create(CLASS).create(default))
    await store.write(change_classes, lambda table: table.update(replace(CLASS, description="new words")))
    after = await store.write(change_classes, lambda table: table.delete("usual"))
    stored = {given.name: given for given in await store.read(read_classes)}
    assert stored == dict(after.classes)
    assert stored["high"].description == "new words"
    assert "usual" not in stored


async def test_an_access_list_stays_with_its_class_until_it_is_taken_off_or_the_class_is_deleted(store):
    listed = AccessList(users=["alice"], groups=["ops"])
    await store.write(change_classes, lambda table: table.create(CLASS))
    assert await store.read(read_access) == {}
    await store.write(write_access, "high", listed)
    await store.write(change_classes, lambda table: table.update(replace(CLASS, description="new words")))
    assert await store.read(read_access) == {"high": listed}
    assert (await store.read(read_catalog)).access == {"high": listed}
    await store.write(write_access, "high", None)
    assert await store.read(read_access) == {}
    await store.write(write_access, "high", AccessList())
    await store.write(change_classes, lambda table: table.delete("high"))
    await store.write(change_classes, lambda table: table.create(CLASS))
    assert await store.read(read_access) == {}


async def test_a_refused_operation_writes_no_class(store):
    await store.write(sync_classes, [CLASS])
    before = await store.read(read_classes)
    with pytest.raises(Refused):
        await store.write(change_classes, lambda table: table.create(CLASS))
    assert await store.read(read_classes) == before


# --- recorded configurations --------------------------------------------------------------------------------


def one(at, **fields):
    change = Change(file="rankd.toml", key="default_qos", old="a", new="b")
    usual = {"actor": "root", "event": "started", "directory": "/etc", "changes": [change], "files": {"a": "é"}}
    return Recorded(number=0, at=at, **usual | fields)


async def test_before_the_first_configuration_none_is_found(store):
    assert await store.ask(newest_configuration) is None
    assert await store.ask(newest_recorded) is None
    assert await store.ask(recorded, 1) is None
    assert await store.ask(recorded_for_ranking) is None
    assert await store.ask(latest_recorded, 5) == []


async def test_recorded_configurations_are_read_as_they_were(store):
    numbers = [await store.write(record, one(NOW + at)) for at in range(3)]
    found = [replace(one(NOW + at), number=number) for at, number in enumerate(numbers)]
    assert numbers == sorted(set(numbers))
    assert await store.ask(newest_configuration) == numbers[2]
    assert await store.ask(newest_recorded) == found[2]
    assert await store.ask(recorded, numbers[1]) == found[1]
    assert await store.ask(recorded_before, numbers[1]) == found[0]
    assert await store.ask(recorded_before, numbers[0]) is None
    assert await store.ask(latest_recorded, 2) == [found[2], found[1]]
    assert await store.ask(recorded_for_ranking) == found[2], "there was no ranking yet"


async def test_a_ranking_keeps_the_configuration_that_it_was_made_under(world):
    await world.write(record, one(NOW + 9))
    assert (await world.ask(recorded_for_ranking)).number == 1


# --- adapters -----------------------------------------------------------------------------------------------

GRADES = Input(kind="qos", qos=(QosRow(name="normal", priority=3),))


async def test_what_an_adapter_gave_stays_until_it_gives_something_else(store):
    await store.write(register_adapters, [ADAPTER])
    assert await store.ask(stored_inputs, [ADAPTER]) == await store.ask(stored_inputs, []) == []
    before = await store.ask(inputs_revision)
    given = StoredInput(name="grades", input=GRADES, read_at=NOW, digest="d")
    await store.write(save_input, given)
    after = await store.ask(inputs_revision)
    await store.write(save_failure, "grades", "no route to host", NOW + 1)
    assert [row["state"] for row in await store.rows("adapter")] == ["failing"]
    await store.write(save_reading, "grades", 1, NOW + 2)
    await store.write(register_adapters, [ADAPTER])
    assert await store.ask(stored_inputs, [ADAPTER]) == [replace(given, read_at=NOW + 2)]
    assert [(row["state"], row["rows"], row["failures"]) for row in await store.rows("adapter")] == [("ok", 1, 0)]
    assert before != after == await store.ask(inputs_revision)
    await store.write(names_came)
    assert await store.ask(inputs_revision) != after
    await store.write(register_adapters, [])
    assert await store.rows("adapter") == []


async def test_the_configuration_is_used_as_the_inputs_change_it(store):
    given = configuration(qos=[Qos(name="normal", priority=1)], adapters=[ADAPTER])
    await store.write(register_adapters, [ADAPTER])
    await store.write(save_input, StoredInput(name="grades", input=GRADES, read_at=NOW))
    found = await store.ask(in_force, given)
    assert [qos.priority for qos in found.configuration.settings.qos] == [3]
    assert [stored.name for stored in found.inputs] == ["grades"]


# --- groups of the head's user database ---------------------------------------------------------------------


async def test_groups_of_a_user_are_replaced_and_a_user_without_any_has_no_row(store):
    assert await store.ask(recorded_groups) == {}
    await store.write(save_user_groups, {"ann": ("a", "b"), "bob": ("b",), "eve": ()}, NOW)
    await store.write(save_user_groups, {"ann": ("b", "c"), "bob": (), "eve": ()}, NOW + 1)
    assert await store.ask(recorded_groups) == {"ann": ("b", "c")}
    assert [row["changed_at"] for row in await store.rows("user_groups")] == [NOW + 1]


@pytest.mark.parametrize(("rule", "ann"), [("users", ("a",)), ("all", ("a",)), ("none", None)])
async def test_recorded_groups_count_for_users_about_whom_the_configuration_says_none(store, rule, ann):
    await store.write(save_user_groups, {"ann": ("a",), "alice": ("b",)}, NOW)
    given = replace(configuration(), groups={"alice": ("optics",)})
    given = replace(given, settings=replace(given.settings, admission=AdmissionSettings(host_groups=rule)))
    groups = (await store.ask(with_recorded_groups, given)).groups
    assert (groups.get("ann"), groups["alice"]) == (ann, ("optics",))


# --- its version --------------------------------------------------------------------------------------------


async def test_each_change_of_names_raises_the_version_of_the_catalog(store):
    assert await store.read(catalog_version) == 0
    await store.configure()
    stored = StoredInput(name=ADAPTER.name, input=Input(kind="qos"), read_at=NOW)
    changes = [
        (raise_version,),
        (add_association, "physics", "carol", 1.0, NOW),
        (change_classes, lambda table: table.create(CLASS)),
        (write_access, CLASS.name, AccessList(users=["alice"])),
        (register_adapters, [ADAPTER]),
        (save_input, stored),
        (names_came,),
        (change_classes, lambda table: table.delete(CLASS.name)),
    ]
    for number, change in enumerate(changes):
        before = await store.read(catalog_version)
        await store.write(*change)
        assert await store.read(catalog_version) > before, number
    present = await store.read(catalog_version)
    await store.write(change_classes, lambda table: table)
    await store.write(save_reading, ADAPTER.name, 1, NOW)
    assert await store.read(catalog_version) == present
