import pytest

from rankd.core.errors import Refused, Unavailable
from rankd.wire.answer import ErrorBody, error_of


@pytest.mark.parametrize(("status", "kind"), [("403", Refused), ("429", Unavailable), ("503", Unavailable)])
def test_an_error_is_raised_again_as_it_was(status, kind):
    error = error_of(status, ErrorBody(code="some_code", message="some text", field="queue"))
    assert type(error) is kind
    assert (error.code, error.message, error.field, error.status) == ("some_code", "some text", "queue", int(status))
