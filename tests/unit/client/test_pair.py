"""Values of the form NAME=VALUE."""

import argparse

import pytest

from rankd.client.pair import key_value


@pytest.mark.parametrize(("text", "pair"), [("A=1", ("A", "1")), ("A=", ("A", "")), ("A=b=c", ("A", "b=c"))])
def test_a_pair_is_parted_at_the_first_sign(text, pair):
    assert key_value(text) == pair


@pytest.mark.parametrize("text", ["A", "=1", ""])
def test_what_is_no_pair_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="NAME=VALUE"):
        key_value(text)
