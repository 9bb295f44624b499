import gc
import weakref

import pytest

from rankd.services.runtime.garbage_collection import ALL_EVERY_S, SetAside


class Node:
    """Refers to itself: reference counts alone never free it."""

    def __init__(self):
        self.me = self


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    clock = Clock()
    callback = SetAside(clock)
    gc.callbacks.append(callback)
    yield clock
    gc.callbacks.remove(callback)
    gc.unfreeze()


@pytest.mark.usefixtures("clock")
def test_what_survives_a_full_search_is_set_aside_and_new_garbage_is_still_found():
    before = gc.get_freeze_count()
    gc.collect()
    assert gc.get_freeze_count() > before
    node = Node()
    gone = weakref.ref(node)
    del node
    gc.collect()
    assert gone() is None


def test_what_becomes_garbage_after_it_was_set_aside_is_found_once_an_hour(clock):
    node = Node()
    gone = weakref.ref(node)
    gc.collect()
    del node
    clock.now = ALL_EVERY_S - 1
    gc.collect()
    assert gone() is not None
    clock.now = ALL_EVERY_S
    gc.collect()
    assert gone() is None
    assert gc.get_freeze_count() > 0


@pytest.mark.usefixtures("clock")
def test_searches_among_new_objects_set_nothing_aside():
    before = gc.get_freeze_count()
    gc.collect(1)
    assert gc.get_freeze_count() == before
