from builder import node, shape, table

from rankd.core.model.device import Device, DeviceState, offered
from rankd.core.placement.device_layout import places
from rankd.core.placement.device_table import DeviceTable, Layouts
from rankd.core.placement.node_table import NodeTable
from rankd.core.placement.problem import Hold
from rankd_plugins.node_sort.fair import Fair

STATES = {"a": DeviceState.OK, "b": DeviceState.TAKEN, "c": DeviceState.FAILED, "d": DeviceState.OK}
FOUR = tuple(Device(model="a100", id=id_, index=at, state=state) for at, (id_, state) in enumerate(STATES.items()))
N1 = node("n1", capacity=offered({"vcore": 4000}, FOUR), devices=FOUR)


def held(*holds, of=N1):
    return NodeTable([of], Fair(), {"vcore": 1.0}, holds)


def free(of):
    """The free devices of the first node, and its free amounts of both columns."""
    columns = of.set.columns
    amounts = [int(of.free[0, columns[kind]]) for kind in ("gpu", "gpu:a100")]
    return of.devices.ids(0, of.devices.free(0)), amounts


def test_taken_and_failed_devices_are_not_free_and_taken_ones_count_as_offered():
    assert N1.capacity == {"vcore": 4000, "gpu": 3, "gpu:a100": 3}
    assert free(held()) == (("a", "d"), [2, 2])


def test_a_held_device_that_fails_is_neither_offered_nor_counted_as_free():
    one = {"vcore": 1000, "gpu": 1, "gpu:a100": 1}
    assert free(held(Hold(node="n1", resources=one, devices=("c",)))) == (("a", "d"), [2, 2])
    assert free(held(Hold(node="n1", resources=one, devices=("a",)))) == (("d",), [1, 1])


def test_a_held_device_that_the_node_no_longer_lists_takes_nothing_from_the_others():
    assert free(held(Hold(node="n1", resources={"gpu": 1, "gpu:a100": 1}, devices=("gone",)))) == (("a", "d"), [2, 2])


def test_an_exclusive_job_gets_all_free_devices():
    of = held()
    share = of.share(0, of.demand(shape(1000, exclusive=True)))
    assert of.devices.ids(0, share.devices) == ("a", "d")
    assert of.given([0], of.demand(shape(1000, exclusive=True)), [share]) == {
        "vcore": 4000,
        "gpu": 2,
        "gpu:a100": 2,
    }


def test_a_job_that_names_no_model_takes_the_column_of_the_model_that_it_gets():
    of = held()
    demand = of.demand(shape(resources={"gpu": 1}))
    of.occupy(0, of.share(0, demand))
    assert free(of) == (("d",), [1, 1])


def test_a_node_without_devices_counts_gpus_and_assigns_none():
    of = table(node("n1", capacity={"gpu": 2}))
    share = of.share(0, of.demand(shape(resources={"gpu": 1})))
    assert share.devices == 0
    assert of.device_ids([0], [share]) == {}


def test_equal_nodes_share_a_layout():
    layouts = Layouts()
    first, second = (layouts.of([Device(model="a100", id=id_, index=0)]) for id_ in "ab")
    assert first is not None
    assert second is not None
    assert first.layout is second.layout
    assert layouts.of([]) is None


def test_the_choice_goes_by_the_price():
    listed = [Device(model=model, id=model, index=at) for at, model in enumerate(("a100", "v100"))]
    rows = [Layouts().of(listed)]
    cheap = DeviceTable(rows, {}, {"gpu": 16.0, "gpu:v100": 4.0})
    assert places(cheap.choose(0, ((None, 1),))) == (1,)
    assert places(DeviceTable(rows, {}, {}).choose(0, ((None, 1),))) == (0,)
