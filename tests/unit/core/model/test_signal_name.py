import pytest

from rankd.core.errors import Refused
from rankd.core.model.signal_name import name_of_signal, parse_signal


@pytest.mark.parametrize("given", ["USR1", "SIGUSR1", "usr1", " 10 ", 10])
def test_a_signal_is_named_in_any_usual_way(given):
    assert parse_signal(given) == 10


@pytest.mark.parametrize("given", ["", "0", 0, -1, "65", 32, 33, "SIG", "USR3", "x" * 9000, "1" * 9000, "\u0661"])
def test_what_is_no_signal_is_refused_in_few_words(given):
    with pytest.raises(Refused, match="is not a signal") as caught:
        parse_signal(given)
    assert caught.value.code == "bad_signal"
    assert len(caught.value.message) < 120


def test_every_signal_is_its_own_name():
    assert all(parse_signal(name_of_signal(number)) == number for number in range(1, 65) if number not in (32, 33))
