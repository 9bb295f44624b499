import pytest

from rankd.core.errors import Refused
from rankd.core.model.quantity import parse_amount, parse_quantity, parse_resources, shown, shown_resources


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", 0),
        ("007", 7),
        (" 25k ", 25_000),
        ("25  k", 25_000),
        ("25\tk\n", 25_000),
        ("3M", 3 * 10**6),
        ("4G", 4 * 10**9),
        ("5T", 5 * 10**12),
        ("6P", 6 * 10**15),
        ("7E", 7 * 10**18),
        ("2Ki", 2 * 2**10),
        ("3Mi", 3 * 2**20),
        ("4Gi", 4 * 2**30),
        ("5Ti", 5 * 2**40),
        ("6Pi", 6 * 2**50),
        ("7Ei", 7 * 2**60),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_a_quantity_is_a_whole_number_with_a_suffix(text, amount):
    assert parse_quantity("memory", text) == amount


@pytest.mark.parametrize(
    ("text", "thousandths"),
    [("1", 1000), ("500m", 500), ("500 m", 500), ("2k", 2_000_000), ("2Ki", 2_048_000), ("6P", 6 * 10**18)],
)
def test_vcore_counts_in_thousandths(text, thousandths):
    assert parse_quantity("vcore", text) == thousandths


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "-1",
        "+1",
        "1.5",
        "1e3",
        "0x10",
        "ten",
        "5X",
        "5KB",
        "5 5",
        "k",
        "1K",
        "1ki",
        "1mi",
        "1_000",
        "\u0661",
    ],
)
@pytest.mark.parametrize("resource", ["vcore", "memory"])
def test_anything_else_is_no_quantity(resource, text):
    with pytest.raises(ValueError, match="write"):
        parse_quantity(resource, text)


@pytest.mark.parametrize(
    ("resource", "text"),
    [
        ("memory", "9223372036854775808"),
        ("memory", "1000E"),
        ("memory", "8Ei"),
        ("memory", "9" * 5000),
        ("vcore", "9223372036854776"),
        ("vcore", "7E"),
    ],
)
def test_a_quantity_over_64_bits_is_refused(resource, text):
    with pytest.raises(ValueError, match="64 bits"):
        parse_quantity(resource, text)


@pytest.mark.parametrize("resource", ["memory", "gpu"])
def test_thousandths_are_for_vcore_only(resource):
    with pytest.raises(ValueError, match="vcore only"):
        parse_quantity(resource, "500m")


@pytest.mark.parametrize(
    ("resource", "value", "amount"),
    [("vcore", 4, 4000), ("vcore", 0.5, 500), ("vcore", "500m", 500), ("memory", 7, 7), ("memory", 7.0, 7)],
)
def test_numbers_are_cores_for_vcore_and_whole_units_otherwise(resource, value, amount):
    assert parse_amount(resource, value) == amount


@pytest.mark.parametrize(
    ("resource", "value"),
    [
        ("vcore", -1),
        ("vcore", True),
        ("vcore", float("nan")),
        ("vcore", float("inf")),
        ("vcore", 0.0001),
        ("memory", 0.5),
        ("memory", 2**63),
    ],
)
def test_other_numbers_are_no_amounts(resource, value):
    with pytest.raises(ValueError, match=r"."):
        parse_amount(resource, value)


def test_resources_asked_for_with_zero_are_left_out():
    assert parse_resources({"vcore": 1, "gpu": 0, "memory": "1Ki"}) == {"vcore": 1000, "memory": 1024}


def test_a_bad_amount_is_refused_with_its_field():
    with pytest.raises(Refused) as caught:
        parse_resources({"vcore": 1, "memory": "1K"}, "job.resources")
    assert (caught.value.code, caught.value.field) == ("bad_quantity", "job.resources.memory")


def test_vcore_is_shown_in_cores():
    assert shown("vcore", 1500) == 1.5
    assert shown_resources({"vcore": 4000, "memory": 1024}) == {"vcore": 4, "memory": 1024}
