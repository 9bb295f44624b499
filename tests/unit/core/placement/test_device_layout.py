from rankd.core.model.device import Device
from rankd.core.placement.device_layout import DeviceLayout, places


def layout(*devices: tuple[str, int]) -> DeviceLayout:
    """Devices as (model, group), in the order of their indices."""
    return DeviceLayout(
        [Device(model=model, id=f"g{at}", index=at, group=group) for at, (model, group) in enumerate(devices)]
    )


def chosen(
    of: DeviceLayout, asked: list[tuple[str | None, int]], free: int = -1, prices: tuple[float, ...] = ()
) -> tuple[int, ...] | None:
    everything = (1 << of.n_devices) - 1
    found = of.choose(free & everything, tuple(asked), prices or (0.0,) * len(of.models))
    return None if found is None else places(found)


FOUR_AND_FOUR = layout(*[("a100", 0)] * 4, *[("a100", 1)] * 4)
MIXED = layout(("v100", 0), ("v100", 0), ("a100", 1), ("a100", 1), ("a100", 1))


def test_a_named_model_is_used() -> None:
    assert chosen(MIXED, [("a100", 2)]) == (2, 3)
    assert chosen(MIXED, [("h100", 1)]) is None


def test_without_a_name_the_cheapest_model_with_enough_devices_is_used() -> None:
    assert MIXED.models == ("a100", "v100")
    assert chosen(MIXED, [(None, 2)], prices=(16.0, 4.0)) == (0, 1)
    assert chosen(MIXED, [(None, 3)], prices=(16.0, 4.0)) == (2, 3, 4)


def test_of_equal_prices_the_model_with_more_free_devices_is_used_then_the_first_by_name() -> None:
    assert chosen(MIXED, [(None, 1)]) == (2,)
    assert chosen(MIXED, [(None, 1)], free=0b00111) == (0,)
    assert chosen(MIXED, [(None, 1)], free=0b00101) == (2,)


def test_several_models_are_used_only_if_no_model_has_enough() -> None:
    assert chosen(MIXED, [(None, 4)]) == (0, 2, 3, 4)
    assert chosen(MIXED, [(None, 4)], prices=(16.0, 4.0)) == (0, 1, 2, 3)
    assert chosen(MIXED, [(None, 6)]) is None


def test_the_group_with_the_fewest_free_devices_is_used() -> None:
    assert chosen(FOUR_AND_FOUR, [("a100", 2)], free=0b11111110) == (1, 2)
    assert chosen(FOUR_AND_FOUR, [("a100", 2)], free=0b01101111) == (5, 6)
    assert chosen(FOUR_AND_FOUR, [("a100", 2)]) == (0, 1)


def test_a_smaller_group_comes_before_one_with_fewer_free_devices() -> None:
    of = layout(("a100", 0), ("a100", 0), ("a100", 0), ("a100", 1), ("a100", 1))
    assert chosen(of, [("a100", 2)], free=0b11011) == (3, 4)


def test_as_few_groups_as_possible_if_none_holds_all() -> None:
    of = layout(("a100", 0), ("a100", 1), ("a100", 1), ("a100", 2), ("a100", 2), ("a100", 2))
    assert chosen(of, [("a100", 4)]) == (0, 3, 4, 5)
    assert chosen(of, [("a100", 5)]) == (1, 2, 3, 4, 5)
    assert chosen(of, [("a100", 3)], free=0b011111) == (0, 1, 2)


def test_several_models_are_chosen_by_name_and_the_first_choice_is_not_free_for_the_second() -> None:
    of = layout(("b", 0), ("b", 0), ("a", 0), ("b", 1), ("b", 1))
    assert chosen(of, [("b", 2)]) == (3, 4)
    assert chosen(of, [("a", 1), ("b", 2)]) == (2, 3, 4)
    assert chosen(of, [("a", 2), ("b", 1)]) is None


def test_a_choice_is_remembered_for_its_prices_only() -> None:
    of = layout(("v100", 0), ("a100", 0))
    assert chosen(of, [(None, 1)], prices=(2.0, 1.0)) == (0,)
    assert chosen(of, [(None, 1)], prices=(1.0, 2.0)) == (1,)
