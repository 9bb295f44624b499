"""A refusal that travelled over the bus is raised as what it was."""

import pytest
from nats.aio.msg import Msg

from rankd.bus.refusal import STATUS_HEADER, not_permitted, raise_if_refused
from rankd.core.errors import Refused, Unavailable
from rankd.wire.answer import ErrorBody
from rankd.wire.codec import encode


def reply(status=None, data=b"{}"):
    return Msg(_client=None, data=data, headers=None if status is None else {STATUS_HEADER: status})


@pytest.mark.parametrize(
    ("status", "kind"), [("400", Refused), ("404", Refused), ("429", Unavailable), ("503", Unavailable)]
)
def test_the_status_says_whether_trying_again_can_help(status, kind):
    body = encode(ErrorBody(code="bad_name", message="the name is empty", field="name"))
    with pytest.raises(kind, match="the name is empty") as error:
        raise_if_refused(reply(status, body))
    assert (error.value.code, error.value.field, error.value.status) == ("bad_name", "name", int(status))


def test_an_answer_is_no_refusal_whatever_it_says():
    raise_if_refused(reply(data=b'{"code": "bad_name"}'))


def test_a_refusal_without_a_body_is_a_refusal_all_the_same():
    with pytest.raises(Refused):
        raise_if_refused(reply("400", b""))


def test_who_may_not_publish_there_is_told_what_to_leave_out():
    assert "--as" in not_permitted("ann", "rankd.request.bob.job.submit").message
    assert not_permitted("ann", "rankd.request.bob.job.submit").status == 403
