"""A job that alone is above a limit of its user or group would never start, and is refused at once."""

import pytest

from rankd.core.admission.queue_entry import queue_entries
from rankd.core.admission.user_limit import check_user_limits
from rankd.core.errors import Refused
from rankd.core.model.job import JobRequest
from rankd.core.model.queue import Limit, Partition, Queue


def entry(*limits, of_root=()):
    leaf = Queue(name="a", path="root.a", limits=limits)
    root = Queue(name="root", path="root", parent=True, limits=of_root, queues=(leaf,))
    return queue_entries(Partition(root=root))["default", "root.a"]


def limit(most, **names):
    return Limit(maxresources={"vcore": most}, **names)


def check(queue, *, vcore=1000, user="ann", groups=(), **request):
    check_user_limits(JobRequest(command=["true"], **request), {"vcore": vcore}, queue, user, groups)


def test_a_job_may_be_as_large_as_the_limit():
    check(entry(limit(2000, users=("ann",))), vcore=2000)
    with pytest.raises(Refused, match=r"2\.001 of vcore, but the limit of user ann in root\.a is 2"):
        check(entry(limit(2000, users=("ann",))), vcore=2001)


def test_the_fewest_nodes_count_and_not_the_most():
    check(entry(limit(2000, users=("ann",))), nodes=8, min_nodes=2)
    with pytest.raises(Refused):
        check(entry(limit(2000, users=("ann",))), nodes=8, min_nodes=3)


def test_a_limit_that_names_the_user_replaces_that_of_all():
    check(entry(limit(5000, users=("ann",)), limit(1, users=("*",))), vcore=5000)
    with pytest.raises(Refused):
        check(entry(limit(5000, users=("ann",)), limit(1, users=("*",))), user="bob")


def test_limits_count_on_the_whole_path():
    with pytest.raises(Refused, match=r"group dev in root is 0\.5"):
        check(entry(of_root=(limit(500, groups=("dev",)),)), groups=["dev"])
