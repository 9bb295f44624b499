"""A document varied: what is replaced, and everything else as it was."""

from rankd.core.adapter.input import Input, UsageRow
from rankd.core.evaluate.diff import Move
from rankd.core.evaluate.document import Document, JobEntry
from rankd.core.evaluate.whatif import by_owner, stated_over, with_jobs, with_weights, without_inputs
from rankd.core.model.association import Association
from rankd.core.model.setting import FairshareSettings, PrioritySettings

NOW = 1_700_000_000.0
DAY_S = 86_400.0


def document(**fields):
    return Document(now=NOW, **fields)


def moved(job, before, after):
    return Move(
        job=job, rank_before=before, rank_after=after, change=after - before, priority_before=0, priority_after=0
    )


def test_weights_are_replaced_or_added_and_the_others_stay():
    before = document(priority=PrioritySettings(weights={"age": 1.0, "fairshare": 2.0}))
    assert with_weights(before, {"age": 5.0, "size": 3.0}).priority.weights == {
        "age": 5.0, "fairshare": 2.0, "size": 3.0,
    }  # fmt: skip
    assert before.priority.weights == {"age": 1.0, "fairshare": 2.0}


def test_jobs_come_behind_those_that_are_there():
    varied = with_jobs(document(jobs=[JobEntry(id=1, user="ann")]), [JobEntry(id="new-1", user="ann")])
    assert [job.id for job in varied.jobs] == [1, "new-1"]


def test_stated_shares_keep_the_live_usage_and_who_is_not_stated_stays_without_being_a_default():
    live = [Association(account="a", user="ann", usage=9.0, usage_at=NOW), Association(account="a", user="old",
            default=True), Association(account="gone")]  # fmt: skip
    stated = [Association(account="a"), Association(account="a", user="ann", shares=7.0)]
    found = {(row.account, row.user): row for row in stated_over(live, stated)}
    assert (found["a", "ann"].shares, found["a", "ann"].usage) == (7.0, 9.0)
    assert not found["a", "old"].default
    assert ("gone", None) in found
    assert ("a", "old") not in {(row.account, row.user) for row in stated_over(live, stated, drops_users=True)}


def test_usage_that_an_adapter_gave_is_taken_off_as_much_as_it_has_faded():
    settings = PrioritySettings(fairshare=FairshareSettings(half_life_s=DAY_S))
    live = document(priority=settings, associations=[Association(account="a", user="ann", usage=60.0)])
    given = Input(kind="usage", usage=[UsageRow(account="a", user="ann", usage=100.0)])
    left = without_inputs(live, [(given, NOW - DAY_S)]).associations
    assert [row.usage for row in left] == [10.0]


def test_what_rounding_leaves_of_usage_is_none():
    live = document(associations=[Association(account="a", user="ann", usage=0.3)])
    given = [Input(kind="usage", usage=[UsageRow(account="a", user="ann", usage=part)]) for part in (0.1, 0.2)]
    assert [row.usage for row in without_inputs(live, [(one, NOW) for one in given]).associations] == [0.0]


def test_owners_are_listed_by_how_far_their_jobs_move():
    jobs = [JobEntry(id=id, user=user, account="a") for id, user in ((1, "ann"), (2, "ann"), (3, "bob"))]
    moves = [moved(1, 2, 1), moved(2, 3, 2), moved(3, 1, 3)]
    owners = by_owner(moves, document(jobs=jobs))
    assert [(row.user, row.jobs, row.earlier, row.later, row.mean_change) for row in owners] == [
        ("bob", 1, 0, 1, 2.0), ("ann", 2, 2, 0, -1.0),
    ]  # fmt: skip
