"""Credentials count as refused after several refusals over some seconds, and not after a single one."""

from rankd.bus.refused_credentials import LEAST, LEAST_S, Refusals


def noted(*times):
    refusals = Refusals()
    for now in times:
        refusals.note(now)
    return refusals


def test_one_refusal_or_many_within_a_moment_do_not_count():
    assert not noted(5.0).lasting.is_set()
    assert not noted(*[5.0] * 100).lasting.is_set()


def test_few_refusals_do_not_count_however_long_they_take():
    assert not noted(*range(0, 1000 * (LEAST - 1), 1000)).lasting.is_set()


def test_refusals_that_go_on_count():
    assert noted(*[LEAST_S * number / LEAST for number in range(LEAST + 1)]).lasting.is_set()


def test_a_connection_in_between_begins_again():
    refusals = noted(0.0, 1.0)
    refusals.over()
    refusals.note(10.0)
    refusals.note(11.0)
    assert not refusals.lasting.is_set()
    refusals.note(12.0)
    assert refusals.lasting.is_set()
    refusals.over()
    assert not refusals.lasting.is_set()
