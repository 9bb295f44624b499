"""The forms in which sbatch reads options."""

import pytest

from rankd.core.slurm.sbatch_line import Given, Spelling, Takes, read_options

KNOWN = {
    one.name: one
    for one in (
        Spelling("time", "t"),
        Spelling("time-min"),
        Spelling("ntasks", "n"),
        Spelling("hold", "H", Takes.NOTHING),
        Spelling("wait", "W", Takes.NOTHING),
        Spelling("nice", "", Takes.MAYBE),
    )
}


def read(line):
    return [tuple(given) for given in read_options(line.split(), KNOWN, refuse)]


def refuse(error):
    raise error


@pytest.mark.parametrize("line", ["--time=5", "--time 5", "-t5", "-t 5"])
def test_a_value_may_stand_in_four_places(line):
    assert read(line) == [("time", "5")]


def test_letters_may_stand_together_and_the_last_may_have_a_value():
    assert read("-HWt5 -n -1") == [("hold", None), ("wait", None), ("time", "5"), ("ntasks", "-1")]


def test_a_beginning_that_fits_one_option_is_enough_and_a_whole_name_is_itself():
    assert read("--nt=2 --time=1 --time-m=1") == [("ntasks", "2"), ("time", "1"), ("time-min", "1")]


def test_a_value_that_need_not_be_is_never_the_next_word():
    assert list(read_options(["--nice", "-H", "--nice="], KNOWN, refuse)) == [
        Given("nice", None), Given("hold", None), Given("nice", ""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("--tim 5", "may mean --time, --time-min"),
        ("--ntask5", "no option --ntask5; did you mean --ntasks?"),
        ("--", "is not an option"),
        ("-", "is not an option"),
        ("job.sh", "'job.sh' is not an option"),
        ("hetjob", "no jobs of several parts"),
        ("-z", "no option -z"),
        ("-Hz", "no option -z"),
        ("--hold=1", "--hold takes no value"),
        ("--time", "--time needs a value"),
        ("-t", "-t needs a value"),
        ("--=5", "no option --"),
    ],
)
def test_what_sbatch_does_not_know_is_refused(line, why):
    with pytest.raises(ValueError, match=why):
        read(line)


def test_what_stands_behind_an_unknown_option_is_read():
    unknown = []
    words = ["--no-such", "5", "6", "-H", "-z", "x", "--tim", "5", "-t", "7"]
    found = read_options(words, KNOWN, lambda error: unknown.append(str(error)))
    assert list(found) == [Given("hold", None), Given("time", "7")]
    assert unknown == [
        "sbatch has no option --no-such",
        "sbatch has no option -z",
        "--tim may mean --time, --time-min",
    ]
