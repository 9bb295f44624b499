import pytest

from rankd.client.blocking import carry_out
from rankd.client.step import Ask, Listen, Room
from rankd.core.errors import Refused


class Answers:
    """A channel that answers each verb with itself, or refuses it."""

    largest = 77

    def request(self, verb, payload, kind, *, timeout_s):
        if verb == "bad":
            raise Refused("bad_verb", f"{payload!r} {kind} {timeout_s}")
        return verb


def test_an_operation_gets_the_results_of_its_steps():
    def plan():
        yield Listen()
        return [(yield Room()), (yield Ask("a", b"", str)), (yield Ask("b", b"", str))]

    assert carry_out(plan(), Answers()) == [77, "a", "b"]


def test_an_operation_may_go_on_after_an_error_or_end_with_it():
    def plan(*, goes_on):
        try:
            yield Ask("bad", b"", str)
        except Refused:
            if not goes_on:
                raise
        return (yield Ask("a", b"", str))

    assert carry_out(plan(goes_on=True), Answers()) == "a"
    with pytest.raises(Refused):
        carry_out(plan(goes_on=False), Answers())
