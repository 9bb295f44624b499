"""Reports over the bus: what their requests may name."""

import math

import pytest

from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused
from rankd.services.intake.report_command import check_request
from rankd.wire.report import ReportRequest

ROOT = Submitter("root", privileged=True)


@pytest.mark.parametrize("weight", [math.nan, math.inf, -math.inf])
def test_a_weight_is_finite(weight):
    check_request(ReportRequest(kind="whatif", weights={"age": -5.0}), ROOT)
    with pytest.raises(Refused, match=r"the weight of age is .*, which is not finite") as caught:
        check_request(ReportRequest(kind="whatif", weights={"age": weight}), ROOT)
    assert (caught.value.code, caught.value.field) == ("bad_field", "weights")
