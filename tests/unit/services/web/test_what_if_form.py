"""The form of What if: which numbers count as changed, and where sliders end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.core.errors import Refused
from rankd.core.evaluate.variation import Variation
from rankd.services.web.what_if_form import LARGEST, InForce, address, new_job, slider, variation

NOW = InForce(weights={"age": 1000.0}, classes={"high": 1000}, qos={"low": 0}, offsets={"root.a": -5})


def test_only_numbers_that_differ_change_something():
    same = {"weight.age": "1000", "class.high": " 1000 ", "qos.low": "", "offset.root.a": "-5", "class.unknown": "7"}
    assert variation(same, NOW) == Variation()
    other = {"weight.age": "0.5", "class.high": "-7", "qos.low": "3", "offset.root.a": "+4"}
    assert variation(other, NOW) == Variation(
        weights={"age": 0.5}, classes={"high": -7}, qos={"low": 3}, queues={"root.a": 4}
    )


@pytest.mark.parametrize(
    "fields",
    [
        *({"weight.age": text} for text in ("x", "nan", "inf")),
        *({"class.high": text} for text in ("1.5", "2147483648", "1e3", "--1", "٣")),
        {"offset.root.a": "9" * 400},
    ],
)
def test_what_is_no_number_is_refused(fields):
    with pytest.raises(Refused) as refused:
        variation(fields, NOW)
    assert refused.value.code == "bad_field"


def test_a_new_job_has_the_fields_that_were_filled_in():
    assert new_job({"cores": " "}) is None
    assert new_job({"cores": "4", "minutes": "2", "qos": "low", "nodes": ""}) == {
        "command": ["true"], "name": "what if", "resources": {"vcore": 4}, "time_limit_s": 120, "qos": "low",
    }  # fmt: skip
    with pytest.raises(Refused, match="number of cores"):
        new_job({"queue": "root.a"})


def test_the_address_has_what_differs_and_gives_the_same_change():
    fields = {"token": "secret", "weight.age": "2000.0", "class.high": "1000", "offset.root.a": "4", "cores": "2"}
    found = address(fields, variation(fields, NOW))
    assert found == "/whatif?weight.age=2000&offset.root.a=4&cores=2"


@given(st.lists(st.floats(-1e12, 1e12), max_size=6), st.integers(1, 5000), st.booleans())
def test_a_slider_reaches_every_number_in_force_up_to_the_largest(numbers, least, is_signed):
    found = slider(numbers, least=least, is_signed=is_signed)
    assert -LARGEST <= found.low < found.high <= LARGEST
    assert found.step >= 1
    assert all(found.low <= number <= found.high for number in numbers if abs(number) <= LARGEST)
