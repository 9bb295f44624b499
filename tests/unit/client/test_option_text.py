"""Errors about options, in rankd's words."""

import argparse

import pytest

from rankd.client.option_text import in_plain_words, unknown_words, with_options


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise ValueError(in_plain_words(message))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("-n x FILE", "argument -n/--number: 'x' is not a whole number"),
        ("-n", "-n/--number needs a value"),
        ("", "FILE is missing"),
        ("--flag=x FILE", "-f/--flag takes no value, but 'x' follows it"),
    ],
)
def test_argparses_words_are_replaced(line, said):
    parser = Parser()
    parser.add_argument("-n", "--number", type=int)
    parser.add_argument("-f", "--flag", action="store_true")
    parser.add_argument("FILE")
    with pytest.raises(ValueError, match=f"^{said}$"):
        parser.parse_args(line.split())


def test_an_unknown_option_names_the_nearest():
    assert unknown_words(["--no-such=1"], ["--time", "-t"]) == "there is no option --no-such"
    assert unknown_words(["--sta"], ["--state", "--start"]) == "there is no option --sta (did you mean --state?)"
    assert unknown_words(["-z"], ["--time"]) == "there is no option -z"
    assert unknown_words(["17"], ["--time"]) == "takes no argument '17'"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("time_limit_s is 0; give seconds above 0", "--time is 0; give seconds above 0"),
        ("job 3: array_limit is 0", "job 3: --array-limit is 0"),
        ("the class belongs in priority_class", "the class belongs in --class"),
        ("admission.max_time_limit_s, my_depends_on and depends_on_node", None),
        ("job 3 is held by the administrator 'root'", None),
    ],
)
def test_fields_of_a_job_are_named_as_options(message, said):
    assert with_options(message) == (message if said is None else said)
