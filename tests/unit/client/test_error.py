import pytest

from rankd.client.error import FAMILIES, BadRequest, NotFound, NotReady, OverLimit, RequestError, WaitTimeout, as_raised
from rankd.core.errors import AboveLimit, RankdError, Refused, RoleLost, Unavailable


@pytest.mark.parametrize(
    ("error", "family"),
    [
        (Refused("unknown_queue", "no", "queue", 404), NotFound),
        (Refused("bad_field", "no"), BadRequest),
        (Refused("strange", "no", status=418), BadRequest),
        (Unavailable("no_answer", "no"), NotReady),
        (AboveLimit("too_many_pending", "no"), OverLimit),
        (RoleLost("intake"), NotReady),
        (RankdError("strange", "no", status=500), RequestError),
    ],
)
def test_an_error_is_of_the_family_of_its_status_and_keeps_what_it_says(error, family):
    raised = as_raised(error)
    assert type(raised) is family
    assert (raised.code, raised.message, raised.field, raised.status) == (
        error.code, error.message, error.field, error.status,
    )  # fmt: skip
    assert raised.retryable == error.retryable
    assert isinstance(raised, RankdError)


def test_an_error_of_the_client_stays_as_it_is():
    error = WaitTimeout([17])
    assert as_raised(error) is error
    assert isinstance(error, TimeoutError)
    assert all(issubclass(family, RequestError) for family in FAMILIES.values())


def test_an_error_names_arguments_and_no_paths_in_requests():
    raised = as_raised(Refused("unknown_job", "there is no job 9", "id", status=404))
    assert raised.field == "job"
    raised = as_raised(Refused("bad_request", "Expected `int`, got `str` - at `$.nodes`", "$.nodes"))
    assert (raised.message, raised.field) == ("Expected `int`, got `str` - at `nodes`", "nodes")
