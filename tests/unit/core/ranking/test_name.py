"""What groups are called, by the indices that jobs carry."""

import numpy as np
from builder import job_row, state, view

from rankd.core.fairshare.tree import AccountTree
from rankd.core.model.association import Association
from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.name import Names, association_names, by_index, queue_names
from rankd.core.ranking.ranking import rank
from rankd.testing import factor_context

TREE = AccountTree.build(
    [
        Association(account="physics"),
        Association(account="chemistry"),
        *(Association(account=account, user="alice") for account in ("physics", "chemistry")),
        Association(account="physics", user="bob"),
    ]
)


def test_associations_are_named_by_their_ids_and_the_gaps_are_empty():
    own = {("physics", "alice"): 4, ("chemistry", "alice"): 1, ("physics", "bob"): 2}
    ids = np.array([own[pair] for pair in pairs()])
    assert association_names(TREE, ids) == (
        ("", ""),
        ("chemistry", "alice"),
        ("physics", "bob"),
        ("", ""),
        ("physics", "alice"),
    )


def pairs():
    """By user index."""
    return sorted(TREE.user_indices, key=lambda pair: TREE.user_indices[pair])


def test_nobody_has_no_names():
    assert association_names(AccountTree.build([]), np.empty(0, dtype=np.int64)) == ()


def test_queues_of_all_partitions_are_named_though_their_paths_are_the_same():
    views = [[view(0, "root"), view(3, "root.a", 0)], [view(2, "root")]]
    assert queue_names(views) == ("root", "", "root", "root.a")


def test_what_has_no_index_is_left_out():
    assert by_index([]) == ()


def test_a_pass_names_every_queue_in_which_a_job_waits():
    """Also one that is no longer configured: its name is empty."""
    seen = []

    class Looks:
        name, per, lowest, highest = "looks", "qos", 0.0, 1.0

        def values(self, context):
            seen.append(context.groups.names)
            return np.zeros(len(context.groups.qos_priorities))

    named = Names(queues=queue_names([[view(0, "root")]]), qos=["normal"])
    waiting = state(job_row(1, queue=2), queues=[view(0, "root")], names=named)
    rank(waiting, PrioritySettings(weights={"looks": 1.0}), [Looks()], 0.0)
    assert seen == [Names(queues=("root", "", ""), qos=["normal"])]


def test_the_context_for_tests_names_all_that_its_jobs_refer_to():
    context = factor_context(0)
    names, jobs = context.groups.names, context.jobs
    for column, listed in (
        (jobs.associations, names.associations),
        (jobs.qos, names.qos),
        (jobs.queues, names.queues),
        (jobs.partitions, names.partitions),
    ):
        assert column.max() < len(listed)
    assert len(names.associations) == len(context.groups.fairshares)
