from hypothesis import given
from hypothesis import strategies as st

from rankd.services.runtime.pause import FEW, LONGEST_S, pause_s


@given(st.integers(0, FEW), st.floats(0, 1e6))
def test_who_found_little_does_not_rest(found, took_s):
    assert pause_s(found, took_s) == 0


@given(st.integers(FEW + 1, 10**6), st.floats(1e-6, 1e6))
def test_who_found_much_rests_but_never_for_long(found, took_s):
    assert 0 < pause_s(found, took_s) <= LONGEST_S
