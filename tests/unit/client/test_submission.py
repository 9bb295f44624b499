import msgspec
import pytest

from rankd.client.blocking import carry_out
from rankd.client.step import Effort
from rankd.client.submission import messages, submit_many, submit_one
from rankd.core.errors import Refused
from rankd.wire.message import JobBatch
from rankd.wire.submission import Accepted, BatchReply, Rejected, Submitted

JOBS = [{"command": ["sleep", str(number)], "key": f"k-{number}"} for number in range(25_000)]


def batches(largest, **keywords):
    return [
        (first, msgspec.json.decode(payload, type=JobBatch)) for first, payload in messages(JOBS, largest, **keywords)
    ]


@pytest.mark.parametrize("largest", [10_000, 300_000, 10**9])
def test_messages_hold_all_jobs_in_order_within_both_limits(largest):
    sent = []
    for first, payload in messages(JOBS, largest):
        batch = msgspec.json.decode(payload, type=JobBatch)
        assert first == len(sent)
        assert len(payload) <= largest
        assert len(batch.jobs) <= 10_000
        sent += [msgspec.json.decode(job) for job in batch.jobs]
    assert sent == JOBS


def test_a_job_larger_than_the_limit_goes_alone_and_the_broker_says_so():
    assert [first for first, _ in messages(JOBS[:3], 10)] == [0, 1, 2]


def test_all_or_nothing_is_said_in_the_message():
    assert [batch.atomic for _, batch in batches(10**9, atomic=True)] == [True] * 3
    assert [batch.atomic for _, batch in batches(10**9)] == [False] * 3


class Intake:
    """Accepts each job but those of odd numbers."""

    def __init__(self, largest):
        self.largest = largest
        self.n_requests = 0

    def request(self, _verb, payload, kind, *, timeout_s):
        assert timeout_s > 0
        self.n_requests += 1
        if kind is Submitted:
            return Submitted(id=1)
        jobs = [int(msgspec.json.decode(job)["command"][1]) for job in msgspec.json.decode(payload, type=JobBatch).jobs]
        return BatchReply(
            accepted=[Accepted(index=place, id=1000 + job) for place, job in enumerate(jobs) if job % 2 == 0],
            rejected=[Rejected(index=place, code="odd", message="") for place, job in enumerate(jobs) if job % 2],
        )


def test_places_in_the_reply_are_those_among_all_jobs():
    intake = Intake(2_000)
    reply = carry_out(submit_many(JOBS[:200], Effort(0)), intake)
    assert intake.n_requests > 1
    assert [(one.index, one.id) for one in reply.accepted] == [(number, 1000 + number) for number in range(0, 200, 2)]
    assert [one.index for one in reply.rejected] == list(range(1, 200, 2))


def test_all_or_nothing_that_does_not_fit_into_one_message_is_refused_before_anything_is_sent():
    intake = Intake(2_000)
    with pytest.raises(Refused) as error:
        carry_out(submit_many(JOBS[:200], Effort(0), atomic=True), intake)
    assert (error.value.code, intake.n_requests) == ("too_many_jobs", 0)


def test_a_job_that_does_not_fit_is_refused_here():
    with pytest.raises(Refused) as error:
        carry_out(submit_one(JOBS[0], Effort(0)), Intake(10))
    assert (error.value.code, error.value.status) == ("too_large", 413)
    assert carry_out(submit_one(JOBS[0], Effort(0)), Intake(1000)).id == 1
