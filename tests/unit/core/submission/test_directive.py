"""Which lines of a script are directives, and what their words are."""

import pytest

from rankd.core.errors import Refused
from rankd.core.submission.directive import MOST_DIRECTIVES, Directive, read_directives, split_words

SCRIPT = """#!/bin/bash
# a comment
#SBATCH -J "my job"   # the name
##SBATCH -n 9
# SBATCH -n 9
 #SBATCH -n 9
#SBATCHING -n 9
#RANKD\t--mem 4G
#SBATCH
#RANKD  # nothing

set -e
#SBATCH -n 9
"""


def test_directives_are_whole_lines_before_the_first_command():
    assert read_directives(SCRIPT) == [
        Directive("SBATCH", 3, ["-J", "my job"]),
        Directive("RANKD", 8, ["--mem", "4G"]),
    ]


@pytest.mark.parametrize("script", ["", "#!/bin/sh", "#!/bin/sh\necho\n#SBATCH -n 1"])
def test_a_script_may_have_none(script):
    assert read_directives(script) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a  b\tc", ["a", "b", "c"]),
        ("'a b' \"c d\"", ["a b", "c d"]),
        (r'"a\"b" "a\\b" "a\nb"', ['a"b', "a\\b", r"a\nb"]),
        (r"a\ b '\'", ["a b", "\\"]),
        ("a#b c # d", ["a#b", "c"]),
        ("'' \"\"", ["", ""]),
        ("a'b'\"c\"", ["abc"]),
        ("$HOME `id` *", ["$HOME", "`id`", "*"]),
        ("-J x\r", ["-J", "x"]),
        ("# all", []),
    ],
)
def test_words_are_split_like_a_shells_without_expansion(text, words):
    assert split_words(text) == words


@pytest.mark.parametrize(("text", "why"), [("'a", "quote"), ('-J "a', "quote"), ("a\\", "backslash")])
def test_a_line_that_does_not_end_is_refused_with_its_number(text, why):
    with pytest.raises(Refused, match=f"line 2: .*{why}") as refused:
        read_directives(f"#!/bin/sh\n#SBATCH {text}\n")
    assert refused.value.code == "bad_directive"


def test_so_many_lines_are_no_script():
    read_directives("#SBATCH -H\n" * MOST_DIRECTIVES)
    with pytest.raises(Refused, match=f"line {MOST_DIRECTIVES + 1}: "):
        read_directives("#SBATCH -H\n" * (MOST_DIRECTIVES + 1))
