"""What a node may register. The lengths of labels are those of Kubernetes' documentation ("Labels and Selectors")."""

import pytest

from rankd.core.admission.node_check import (
    MAX_RUNNING,
    check_labels,
    check_name,
    check_node_name,
    check_running,
    node_capacity,
)
from rankd.core.errors import Refused
from rankd.core.model.device import Device
from rankd.core.placement.constraint import NODE


def code_of(check, *arguments):
    with pytest.raises(Refused) as refusal:
        check(*arguments)
    return refusal.value.code


@pytest.mark.parametrize("name", ["", "n" * 254, "a\nb", "a\x1b[2J"])
def test_a_name_is_printable_and_not_longer_than_a_host_name(name):
    check_name("n" * 253, "partition")
    assert code_of(check_name, name, "partition") == "bad_name"


@pytest.mark.parametrize("name", ["n[1", "n]", "a,b"])
def test_a_nodes_name_fits_into_a_list_of_nodes(name):
    check_name(name, "partition")
    assert code_of(check_node_name, name) == "bad_name"


def test_a_label_may_have_a_prefix_a_slash_and_63_characters_and_no_more():
    longest = f"{'p' * 253}/{'k' * 63}"
    check_labels({longest: "v" * 63, "empty": ""})
    assert code_of(check_labels, {f"{longest}x": ""}) == "bad_label"
    assert code_of(check_labels, {"key": "v" * 64}) == "bad_label"
    assert code_of(check_labels, {"": "v"}) == "bad_label"
    assert code_of(check_labels, {NODE: "another"}) == "bad_label"
    assert code_of(check_labels, {str(n): "" for n in range(257)}) == "too_many"


def test_capacity_is_read_as_users_write_it_and_bounded():
    assert node_capacity({"vcore": "1500m", "memory": "1Ki", "gpu": 0}) == {"vcore": 1500, "memory": 1024}
    assert code_of(node_capacity, {"gpu": 2**63}) == "bad_quantity"
    assert code_of(node_capacity, {"": 1}) == "bad_name"
    assert code_of(node_capacity, {str(n): 1 for n in range(65)}) == "too_many"


def test_a_node_runs_a_bounded_number_of_allocations():
    check_running(MAX_RUNNING)
    assert code_of(check_running, MAX_RUNNING + 1) == "too_many"


@pytest.mark.parametrize(
    "fields",
    [
        {"id": ""},
        {"id": "x" * 129},
        {"id": "a,b"},
        {"id": "a b"},
        {"id": "a\n"},
        {"id": "\u00e9"},
        {"model": "A100"},
        {"model": ""},
        {"index": -1},
        {"group": 2**31},
        {"memory": 2**51},
    ],
)
def test_an_impossible_device_is_refused(fields):
    device = Device(**{"model": "a100", "id": "g0", "index": 0, **fields})
    with pytest.raises(Refused) as refusal:
        node_capacity({"vcore": 1}, [device])
    assert (refusal.value.code, refusal.value.field) == ("bad_devices", "devices")


def test_a_node_lists_a_bounded_number_of_devices_with_ids_of_their_own():
    devices = [Device(model="a100", id=f"g{at}", index=at) for at in range(257)]
    assert node_capacity({"vcore": 1}, devices[:256])["gpu"] == 256
    for listed, code in ((devices, "too_many"), ([devices[0], devices[0]], "bad_devices")):
        with pytest.raises(Refused) as refusal:
            node_capacity({"vcore": 1}, listed)
        assert refusal.value.code == code
