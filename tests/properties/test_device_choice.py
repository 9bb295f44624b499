"""The choice of devices equals that of a slow reference, which compares all sets of free devices by the rule."""

from device_reference import MODELS, slow
from hypothesis import given
from hypothesis import strategies as st

from rankd.core.model.device import Device
from rankd.core.placement.device_layout import Asked, DeviceLayout, places


@st.composite
def nodes(draw: st.DrawFn) -> tuple[list[Device], frozenset[int], dict[str, float]]:
    """Devices in the order of their indices, the places of the free ones, and prices of models."""
    kinds = st.tuples(st.sampled_from(MODELS), st.integers(0, 3))
    listed = draw(st.lists(kinds, min_size=1, max_size=9))
    devices = [Device(model=model, group=group, id=f"g{at}", index=at) for at, (model, group) in enumerate(listed)]
    free = draw(st.sets(st.sampled_from(range(len(devices)))))
    return devices, frozenset(free), {model: draw(st.sampled_from([0.0, 4.0, 16.0])) for model in MODELS}


requests = st.one_of(
    st.integers(1, 7).map(lambda number: ((None, number),)),
    st.dictionaries(st.sampled_from(MODELS), st.integers(1, 5), min_size=1).map(lambda of: tuple(sorted(of.items()))),
)


@given(nodes(), requests)
def test_the_choice_equals_that_of_the_slow_reference(
    node: tuple[list[Device], frozenset[int], dict[str, float]], asked: Asked
) -> None:
    devices, free, prices = node
    layout = DeviceLayout(devices)
    found = layout.choose(sum(1 << place for place in free), asked, tuple(prices[model] for model in layout.models))
    assert (None if found is None else places(found)) == slow(devices, free, prices, asked)


@given(nodes(), requests)
def test_only_free_devices_are_chosen_and_as_many_as_were_asked_for(
    node: tuple[list[Device], frozenset[int], dict[str, float]], asked: Asked
) -> None:
    devices, free, prices = node
    layout = DeviceLayout(devices)
    found = layout.choose(sum(1 << place for place in free), asked, tuple(prices[model] for model in layout.models))
    own = [sum(devices[place].model == model for place in free) for model in MODELS]
    enough = (
        sum(own) >= asked[0][1]
        if asked[0][0] is None
        else all(own[MODELS.index(str(model))] >= number for model, number in asked)
    )
    assert (found is not None) == enough
    if found is not None:
        assert free.issuperset(places(found))
        assert found.bit_count() == sum(number for _, number in asked)
