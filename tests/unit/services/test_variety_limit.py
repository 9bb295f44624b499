"""The limits of how different pending jobs may be: they hold whoever submits, and cost nothing below."""

import asyncio

import pytest
from builder import accepted

from rankd.core.model.setting import AdmissionSettings
from rankd.services.intake.pending_limit import AGAIN_S, ALL
from rankd.services.intake.variety_limit import More, VarietyLimits
from rankd.store.record.pending_variety import Variety

USUAL = {"max_shapes": 100, "max_shapes_per_user": 5, "max_constraints_per_user": 100, "max_applications_per_user": 100}


class Records:
    """Pending jobs, as the database has them. A reading takes a moment, in which others may submit."""

    def __init__(self, **limits):
        self.settings = AdmissionSettings(**USUAL | limits)
        self.jobs, self.coming = [], []
        self.reads = []
        self.now = 0.0
        self.limits = VarietyLimits(lambda: self.settings, self.number, self.read, lambda: self.now)

    def number(self, user):
        return sum(user in (ALL, job.user) for job in self.jobs + self.coming)

    async def read(self, user):
        self.reads.append(user)
        keys = [self.limits._variety_of(job) for job in self.jobs if user in (ALL, job.user)]
        await asyncio.sleep(0)
        return Variety(*({key[kind] for key in keys} - {None} for kind in range(3)))

    async def submit(self, *jobs):
        """The refusals."""
        self.coming += jobs  # counted before, as PendingLimits does
        refused = await self.limits.reserve(jobs)
        await asyncio.sleep(0)
        self.jobs += [job for place, job in enumerate(jobs) if place not in refused]
        del self.coming[: len(jobs)]
        return list(refused.values())


def jobs(number, user="alice", **request):
    """Jobs of as many shapes."""
    return [accepted(user=user, resources={"vcore": 1000 * (at + 1)}, request=request) for at in range(number)]


async def test_a_user_has_as_many_shapes_as_the_limit_says():
    records = Records()
    assert len(await records.submit(*jobs(8))) == 3
    assert await records.submit(*jobs(5)) == []
    assert len(await records.submit(*jobs(6))) == 1
    assert len(await records.submit(*jobs(7, user="bob"))) == 2


async def test_below_the_limits_nothing_is_read_or_kept():
    records = Records()
    assert await records.submit(*jobs(5)) == []
    assert (records.reads, records.limits._held) == ([], {})


async def test_many_equal_jobs_are_one_shape():
    records = Records()
    assert await records.submit(*jobs(1) * 50) == []
    assert await records.submit(*jobs(5)) == []


async def test_all_users_share_a_limit_of_shapes():
    records = Records(max_shapes=7)
    assert await records.submit(*jobs(5)) == []
    more = [accepted(user="bob", nodes=at + 2) for at in range(4)]
    refused = await records.submit(*more)
    assert [error.code for error in refused] == ["too_many_shapes"] * 2
    assert "all users together have pending jobs of 7 different shapes" in refused[0].message
    assert "admission.max_shapes allows" in refused[0].message


@pytest.mark.parametrize(
    ("kind", "request_of"),
    [("constraints", lambda at: {"constraints": f"k{at}"}), ("applications", lambda at: {"application": f"a{at}"})],
)
async def test_constraints_and_applications_have_limits_of_their_own(kind, request_of):
    records = Records(**{"max_shapes_per_user": 100, f"max_{kind}_per_user": 3})
    refused = await records.submit(*(accepted(request=request_of(at)) for at in range(5)))
    assert [(error.code, error.status, error.retryable) for error in refused] == [(f"too_many_{kind}", 429, True)] * 2
    assert f"user 'alice' has pending jobs of 3 different {kind}" in refused[0].message
    assert f"admission.max_{kind}_per_user allows; submit again when some have started" in refused[0].message
    assert await records.submit(accepted(), accepted(request=request_of(1))) == []


async def test_an_application_of_another_queue_is_another_one():
    records = Records(max_applications_per_user=1)
    refused = await records.submit(
        accepted(request={"application": "a"}), accepted(queue="root.other", request={"application": "a"})
    )
    assert len(refused) == 1


async def test_submissions_at_the_same_time_pass_no_limit_together():
    records = Records()
    await records.submit(*jobs(1) * 6)  # the user is crowded from now on
    found = await asyncio.gather(*(records.submit(*jobs(20)[at : at + 2]) for at in range(0, 20, 2)))
    assert sum(map(len, found)) == 15
    assert len({records.limits._variety_of(job)[0] for job in records.jobs}) == 5


async def test_what_was_being_stored_when_a_user_became_crowded_counts_from_the_next_reading_on():
    """At most as many jobs as the limit says."""
    records = Records()
    await asyncio.gather(*(records.submit(*jobs(20)[at : at + 2]) for at in range(0, 20, 2)))
    assert len({records.limits._variety_of(job)[0] for job in records.jobs}) <= 10
    records.now += AGAIN_S
    assert len(await records.submit(accepted(nodes=7))) == 1


async def test_room_is_seen_again_after_a_moment_and_a_flood_costs_no_more_readings():
    records = Records()
    await records.submit(*jobs(8))
    read = len(records.reads)
    for _ in range(100):
        assert len(await records.submit(accepted(nodes=7))) == 1
    assert len(records.reads) == read
    del records.jobs[0]
    records.jobs += [records.jobs[0]] * 5
    for _ in range(2):  # what was added before a reading may not be stored yet, and counts until the next one
        records.now += AGAIN_S
        refused = await records.submit(accepted(nodes=7))
    assert refused == []


async def test_at_the_start_the_shapes_of_all_are_read_only_if_they_may_be_too_many():
    records = Records(max_shapes=3)
    await records.limits.start()
    assert records.reads == []
    records.jobs += jobs(4)
    await records.limits.start()
    assert records.reads == [ALL]


# --- beside other intakes -----------------------------------------------------------------------------------


async def test_shapes_that_others_have_added_are_read_exactly_once_they_matter():
    records = Records()
    mine, theirs = jobs(5), jobs(8)[5:]
    assert await records.submit(*mine, *mine) == []
    more = More({"alice": 3, ALL: 3}, {"alice": shapes(records, theirs)})
    read = []

    def present(name):
        read.append(name)
        return shapes(records, [*mine, *theirs])

    assert records.limits.is_within(mine, More(), present), "nobody has added anything"
    assert read == []
    records.limits.settle(More())
    assert records.limits.is_within(mine, more, present), "they have these shapes already"
    assert read == ["alice"]
    records.limits.settle(more)
    records.jobs += theirs
    assert len(await records.submit(*jobs(9)[8:])) == 1


async def test_a_new_shape_is_not_stored_if_others_have_taken_the_room_meanwhile():
    records = Records()
    mine, theirs = jobs(4), jobs(6)[5:]
    assert await records.submit(*mine, *mine) == []
    [fifth] = jobs(5)[4:]
    assert await records.limits.reserve([fifth]) == {}
    more = More({"alice": 1, ALL: 1}, {"alice": shapes(records, theirs)})
    assert not records.limits.is_within([fifth], more, lambda _: shapes(records, [*mine, *theirs]))
    records.limits.settle(more)
    records.jobs += theirs
    assert len(await records.limits.reserve([fifth])) == 1


def shapes(records, of):
    return Variety({records.limits._variety_of(job)[0] for job in of}, set(), set())
