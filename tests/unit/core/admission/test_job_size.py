import pytest

from rankd.core.admission.job_size import MAX_JOB_BYTES, check_size
from rankd.core.errors import Refused


def test_a_job_of_256_kib_is_accepted_and_a_larger_one_is_refused():
    check_size(MAX_JOB_BYTES)
    with pytest.raises(Refused, match=f"has {MAX_JOB_BYTES + 1} bytes, 262144 are allowed") as caught:
        check_size(MAX_JOB_BYTES + 1)
    assert (caught.value.code, caught.value.status) == ("too_large", 413)
