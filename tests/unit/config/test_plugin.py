"""Which plugin a weight's name means, and what is said where it means none."""

import pytest

from rankd.config.plugin import factor_names, factor_range, is_provided, load_factor, load_factors, load_node_sort
from rankd.core.errors import ConfigurationError
from rankd.core.model.setting import PrioritySettings

SETTINGS = PrioritySettings()


def test_factors_come_in_the_order_of_the_weights():
    settings = PrioritySettings(weights={"user": 1, "age": 2, "size": 3})
    assert [factor.name for factor in load_factors(settings)] == ["user", "age", "size"]


def test_what_follows_the_dot_goes_to_the_plugin():
    assert load_factor("resource.gpu", SETTINGS).kind == "gpu"
    assert [load_factor(f"resource.{kind}", SETTINGS).name for kind in ("a", "b")] == ["resource.a", "resource.b"]


@pytest.mark.parametrize(
    ("name", "provided"),
    [("age", True), ("agee", False), ("age.x", False), ("age.", False), ("resource", False), ("resource.", False)],
)
def test_a_name_is_provided_if_it_can_be_loaded(name, provided):
    assert is_provided(name) is provided
    if not provided:
        with pytest.raises(ConfigurationError):
            load_factor(name, SETTINGS)


def test_an_unknown_factor_is_told_with_the_known_ones():
    with pytest.raises(ConfigurationError, match=r"known: .*age.*fairshare"):
        load_factor("agee", SETTINGS)


def test_the_range_of_a_factor_is_known_without_settings():
    assert factor_range("age") == (0.0, 1.0)
    assert factor_range("user")[0] == -1.0
    assert factor_range("resource.gpu") == (0.0, 1.0)


def test_every_installed_factor_and_node_sort_can_be_loaded():
    for name in factor_names():
        load_factor(f"{name}.x" if name == "resource" else name, SETTINGS)
    assert [load_node_sort(name).name for name in ("fair", "binpacking")] == ["fair", "binpacking"]
