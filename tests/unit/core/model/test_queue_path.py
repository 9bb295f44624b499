import pytest

from rankd.core.model.queue import ROOT_QUEUE
from rankd.core.model.queue_path import full_path


@pytest.mark.parametrize("queue", ["gpu", "a.b", "rooted", ""])
def test_a_short_name_is_below_the_root(queue):
    assert full_path(queue) == f"{ROOT_QUEUE}.{queue}"


@pytest.mark.parametrize("queue", ["root", "Root.Gpu", "root.a.b"])
def test_a_full_path_stays(queue):
    assert full_path(queue) == queue
