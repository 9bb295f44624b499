"""A worker is told what it does not know, and no more."""

import msgspec
import numpy as np
import pytest

from rankd.core.ranking.name import Names
from rankd.plugin.briefing import Briefing
from rankd.plugin.message import Ask, GroupArrays, sendable
from rankd.testing import factor_context


@pytest.fixture
def context():
    return factor_context(1)


def with_groups(context, **fields):
    return msgspec.structs.replace(context, groups=msgspec.structs.replace(context.groups, **fields))


def ask(briefing, context):
    sent = msgspec.msgpack.encode(briefing.ask(1, context, 5.0))
    return msgspec.msgpack.decode(sent, type=Ask)


def test_the_first_message_has_everything_and_the_same_again_nothing(context):
    briefing = Briefing()
    first = ask(briefing, context)
    groups = first.groups.groups(first.names, first.shapes)
    for name in groups.__struct_fields__:
        found, expected = getattr(groups, name), getattr(context.groups, name)
        if isinstance(expected, np.ndarray):
            assert np.array_equal(found, expected, equal_nan=True)
        elif isinstance(expected, Names):
            assert list(map(tuple, found.associations)) == list(expected.associations)
            assert list(found.queues) == list(expected.queues)
        else:
            assert found == expected
    again = ask(briefing, context)
    assert (again.groups, again.names, again.shapes) == (None, None, [])
    assert again.shapes_kept == len(context.groups.shapes)


def test_equal_names_are_not_sent_again_and_other_ones_are(context):
    briefing = Briefing()
    ask(briefing, context)
    names = context.groups.names
    assert ask(briefing, with_groups(context, names=msgspec.structs.replace(names))).names is None
    other = msgspec.structs.replace(names, qos=["other"])
    assert ask(briefing, with_groups(context, names=other)).names.qos == ["other"]


def test_of_a_list_of_shapes_that_grows_what_is_new_is_sent(context):
    briefing, shapes = Briefing(), [{"vcore": 1}, {"vcore": 2}]
    growing = with_groups(context, shapes=shapes)
    ask(briefing, growing)
    shapes.append({"vcore": 3})
    later = ask(briefing, growing)
    assert (later.shapes_kept, later.shapes) == (2, [{"vcore": 3}])
    older = ask(briefing, with_groups(context, shapes=shapes[:1]))
    assert (older.shapes_kept, older.shapes) == (3, [])
    assert ask(briefing, growing).shapes == []
    others = ask(briefing, with_groups(context, shapes=[{"vcore": 9}]))
    assert (others.shapes_kept, others.shapes) == (0, [{"vcore": 9}])
    none = ask(briefing, with_groups(context, shapes=[]))
    assert (none.shapes_kept, none.shapes) == (0, [])


def test_amounts_that_no_message_holds_are_sent_as_large_as_can_be():
    assert sendable([{"vcore": 2**70, "gpu": 1}]) == [{"vcore": 2**63 - 1, "gpu": 1}]


def test_groups_are_read_only_on_the_other_side(context):
    groups = GroupArrays.of(context.groups).groups(Names(), [])
    with pytest.raises(ValueError, match="read-only"):
        groups.fairshares[0] = 1.0
