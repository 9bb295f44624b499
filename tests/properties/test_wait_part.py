"""The six parts of a wait add up to the whole, exactly, over any history."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from rankd.core.admission.dependency import BEGIN_TIME, DEPENDENCY, NEVER
from rankd.core.model.job import State
from rankd.core.model.wait_part import Spell, WaitCause, Waiting, counted, divided, thinned

NOW = 1.8e9
TIMES = st.floats(NOW, NOW + 1e6)
HISTORY = st.lists(
    st.builds(Spell, TIMES, st.sampled_from([None, WaitCause.QUOTA, WaitCause.RESOURCES, WaitCause.RESERVED])),
    max_size=12,
).map(lambda spells: sorted(spells, key=lambda spell: spell.since))
CHANGES = st.lists(
    st.tuples(
        TIMES,
        st.fixed_dictionaries(
            {
                "state": st.sampled_from([State.PENDING, State.PENDING, State.ALLOCATED]),
                "held": st.booleans(),
                "urgency": st.sampled_from([0, 16]),
                "blocked_by": st.sampled_from([None, None, DEPENDENCY, NEVER, BEGIN_TIME]),
                "limited": st.booleans(),
            }
        ),
    ),
    max_size=10,
)
NEW = {"state": State.PENDING, "held": False, "urgency": 16, "blocked_by": None, "limited": False}


@given(TIMES, CHANGES, st.lists(HISTORY, max_size=3))
@settings(max_examples=200, deadline=None)
def test_the_parts_of_any_history_add_up_to_the_whole(submitted, changes, spells):
    """Also if a clock goes back."""
    waiting = Waiting(**NEW, until=submitted, parts={})
    last = submitted
    for at, record in changes:
        waiting = counted(waiting, spells, at)
        waiting = Waiting(**record, until=waiting.until, parts=waiting.parts)
        last = max(last, at)
        assert waiting.until == last
        assert sum(waiting.parts.values(), 0.0) == last - submitted
        assert all(part >= 0 for part in waiting.parts.values())


@given(HISTORY, HISTORY, TIMES, st.floats(0, 1e6))
@settings(max_examples=200, deadline=None)
def test_every_second_counts_as_what_a_slow_reference_says(first, second, since, length):
    until = since + length
    found = divided([first, second], since, until, WaitCause.STARTING)
    assert sum(found.values()) == until - since
    bounds = sorted({since, until, *(one.since for one in [*first, *second] if since < one.since < until)})
    slow, unknown = dict.fromkeys(WaitCause, 0.0), 0.0
    for begin, end in pairwise(bounds):
        known = [([None] + [one.cause for one in each if one.since <= begin])[-1] for each in (first, second)]
        cause = known[0] or known[1]
        unknown += end - begin
        if cause:
            slow[cause], unknown = slow[cause] + unknown, 0.0
    slow[WaitCause.STARTING] += unknown
    assert {cause: part for cause, part in slow.items() if part} == {c: s for c, s in found.items() if s}


@given(st.integers(0, 40), st.integers(2, 16))
def test_a_thinned_history_keeps_its_first_spell_and_its_newer_half(length, most):
    history = [Spell(float(at), None) for at in range(length)]
    forgotten = thinned(history, most)
    left = [spell for spell in history if spell not in forgotten]
    assert bool(forgotten) == (length > most)
    assert left[:1] == history[:1]
    assert left[len(left) - most // 2 :] == history[length - most // 2 :] or length <= most
