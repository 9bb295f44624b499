from rankd.core.model.device import (
    Device,
    DeviceState,
    in_order,
    offered,
    price_of,
    with_models,
    with_sum,
    without_sum,
)


def device(id_: str, model: str = "a100", index: int = 0, state: DeviceState = DeviceState.OK) -> Device:
    return Device(id=id_, model=model, index=index, state=state)


def test_equal_indices_are_ordered_by_id() -> None:
    assert [one.id for one in in_order([device("b"), device("a"), device("c", index=-1)])] == ["c", "a", "b"]


def test_gpu_is_at_least_the_sum_of_the_models() -> None:
    assert with_sum({"gpu": 1, "gpu:a100": 2, "gpu:v100": 1})["gpu"] == 3
    assert with_sum({"gpu": 8, "gpu:a100": 2})["gpu"] == 8
    assert with_sum({"vcore": 1000}) == {"vcore": 1000}


def test_the_sum_is_not_shown_beside_models() -> None:
    assert without_sum({"gpu": 2, "gpu:a100": 2, "vcore": 1000}) == {"gpu:a100": 2, "vcore": 1000}
    assert without_sum({"gpu": 2}) == {"gpu": 2}


def test_given_devices_replace_the_amounts_that_were_asked_for() -> None:
    given = with_models({"vcore": 1000, "gpu": 3}, ["a100", "v100", "a100"])
    assert given == {"vcore": 1000, "gpu:a100": 2, "gpu:v100": 1, "gpu": 3}
    assert with_models({"gpu": 1}, []) == {}


def test_taken_devices_are_offered_and_failed_ones_are_not() -> None:
    listed = [device("a"), device("b", state=DeviceState.TAKEN), device("c", state=DeviceState.FAILED)]
    assert offered({"vcore": 1000, "gpu": 8}, listed) == {"vcore": 1000, "gpu:a100": 2, "gpu": 2}


def test_a_node_without_devices_may_count_gpus() -> None:
    assert offered({"gpu": 4}, []) == {"gpu": 4}
    assert offered({"gpu:a100": 4}, []) == {"gpu:a100": 4, "gpu": 4}


def test_the_price_of_a_model_comes_before_that_of_all() -> None:
    billing = {"gpu": 16.0, "gpu:v100": 4.0}
    assert price_of("v100", billing) == 4.0
    assert price_of("a100", billing) == 16.0
    assert price_of("a100", {}) == 0.0
