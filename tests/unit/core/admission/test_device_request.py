import pytest

from rankd.core.admission.device_request import read_request
from rankd.core.errors import Refused


def test_models_have_their_sum():
    assert read_request({"gpu:a100": 2, "gpu:v100": "1"}) == {"gpu:a100": 2, "gpu:v100": 1, "gpu": 3}
    assert read_request({"gpu": 2, "vcore": 0.5}) == {"gpu": 2, "vcore": 500}


def test_an_amount_of_0_means_the_same_as_leaving_it_out():
    assert read_request({"gpu": 0, "gpu:a100": 1}) == {"gpu:a100": 1, "gpu": 1}


@pytest.mark.parametrize(
    ("given", "code", "field"),
    [
        ({"gpu": 1, "gpu:a100": 1}, "bad_resources", "resources.gpu"),
        ({"gpu": 0.5}, "bad_resources", "resources.gpu"),
        ({"gpu": "500m"}, "bad_resources", "resources.gpu"),
        ({"gpu:a100": 1.5}, "bad_resources", "resources.gpu:a100"),
        ({"gpu": float("nan")}, "bad_resources", "resources.gpu"),
        ({"gpu:": 1}, "bad_resources", "resources"),
        ({"gpu:A100": 1}, "bad_resources", "resources"),
        ({"gpu": -1}, "bad_quantity", "resources.gpu"),
        ({"gpu": "x"}, "bad_quantity", "resources.gpu"),
    ],
)
def test_a_request_that_no_node_can_serve_is_refused(given, code, field):
    with pytest.raises(Refused) as refusal:
        read_request(given)
    assert (refusal.value.code, refusal.value.field) == (code, field)
