"""Which nodes may join, and with how much."""

import pytest

from rankd.core.admission.known_node import Bounded, KnownNodes
from rankd.core.errors import Refused
from rankd.core.model.device import Device

OFFER = {"vcore": 128, "memory": "512Gi", "gpu": 4}


def test_models_of_an_entry_may_have_capital_letters():
    known = KnownNodes({"n1": {"vcore": 4, "GPU:A100": 1}})
    bounded = known.bounded("n1", {"vcore": 4}, [Device(model="a100", id=f"g{n}", index=n) for n in range(2)])
    assert [device.id for device in bounded.devices] == ["g0"]


def test_without_a_table_every_node_counts_as_it_offers():
    assert KnownNodes({}).bounded("any", OFFER) == Bounded(OFFER)


@pytest.mark.parametrize("node", ["n3", "n", "n01", "login1", ""])
def test_a_node_that_is_not_named_is_refused(node):
    with pytest.raises(Refused, match="does not know a node") as caught:
        KnownNodes({"n[1-2],login": {}}).bounded(node, OFFER)
    assert (caught.value.code, caught.value.status) == ("node_not_known", 403)


def test_an_empty_entry_allows_all():
    assert KnownNodes({"n[1-2],login": {}}).bounded("n2", OFFER) == Bounded(OFFER)


def test_more_than_allowed_is_cut_and_said():
    known = KnownNodes({"n1": {"vcore": 64, "memory": "1Ti"}})
    assert known.bounded("n1", OFFER) == Bounded({"vcore": 64, "memory": "512Gi"}, "vcore 64 of 128, no gpu (4)")
    assert known.bounded("n1", {"vcore": 64, "memory": "1024Gi"}).cuts == ""
    assert known.bounded("n1", {"vcore": "64001m"}).resources == {"vcore": 64}


def test_a_long_list_of_cuts_is_short():
    offer = {f"kind{number}": 1 for number in range(9)}
    assert KnownNodes({"n1": {"vcore": 1}}).bounded("n1", offer).cuts.endswith("no kind4 (1) and 4 more")


def test_an_entry_bounds_the_devices_that_count():
    models = ("a100", "a100", "v100", "v100")
    devices = [Device(model=model, id=f"g{at}", index=at) for at, model in enumerate(models)]

    def counted(most):
        found = KnownNodes({"n1": most}).bounded("n1", {"vcore": 4}, devices)
        return [device.id for device in found.devices], found.cuts

    assert counted({}) == (["g0", "g1", "g2", "g3"], "")
    assert counted({"vcore": 4, "gpu": 4})[0] == ["g0", "g1", "g2", "g3"]
    assert counted({"vcore": 4, "gpu": 3}) == (["g0", "g1", "g2"], "3 of 4 devices")
    assert counted({"vcore": 4, "gpu:v100": 1}) == (["g2"], "1 of 4 devices")
    assert counted({"vcore": 4, "gpu": 2, "gpu:a100": 1})[0] == ["g0", "g2"]
    assert counted({"vcore": 4}) == ([], "0 of 4 devices")
