"""The choice of devices equals that of a slow reference, which compares all sets of free devices by the rule."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from rankd.core.model.device import Device
from rankd.core.placement.device_layout import Asked, DeviceLayout, places

MODELS = ("a100", "h100", "v100")


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


def slow_of_model(devices: list[Device], free: set[int], model: str, number: int) -> set[int] | None:
    """Step 2 and 3 of the rule, by comparing all sets of this size."""

    def key(chosen: tuple[int, ...]) -> object:
        groups = {devices[place].group for place in chosen}
        if len(groups) > 1:
            return len(groups), 0, 0, chosen
        members = [place for place, device in enumerate(devices) if device.group in groups]
        return 1, len(members), len(free.intersection(members)), chosen

    own = sorted(place for place in free if devices[place].model == model)
    return set(min(combinations(own, number), key=key)) if len(own) >= number else None


def slow(devices: list[Device], free: frozenset[int], prices: dict[str, float], asked: Asked) -> tuple[int, ...] | None:
    left, chosen = set(free), set[int]()
    if asked[0][0] is None:
        asked = slow_models(devices, left, prices, asked[0][1])
    for model, number in asked:
        found = slow_of_model(devices, left, model or "", number)
        if found is None:
            return None
        chosen |= found
        left -= found
    return tuple(sorted(chosen))


def slow_models(devices: list[Device], free: set[int], prices: dict[str, float], number: int) -> Asked:
    """Step 1 of the rule, without a named model."""
    own = {model: sum(devices[place].model == model for place in free) for model in MODELS}
    order = sorted(MODELS, key=lambda model: (prices[model], -own[model], model))
    for model in order:
        if own[model] >= number:
            return ((model, number),)
    if sum(own.values()) < number:
        return (("no such model", 1),)
    listed = [model for model in order for _ in range(own[model])][:number]
    return tuple((model, listed.count(model)) for model in order if model in listed)


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
