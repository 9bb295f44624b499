"""Values that rankd writes in another way."""

import pytest

from rankd.core.slurm.sbatch_value import constraint, exported, file_pattern, gpus, time_limit, urgency_of_nice


@pytest.mark.parametrize(
    ("text", "ours"),
    [("30", "1800s"), ("2:30", "150s"), ("1:00:00", "3600s"), ("3-", "259200s"), ("1-12", "129600s"),
     ("0", None), ("0-00:00:00", None), ("UNLIMITED", None), ("infinite", None)],
)  # fmt: skip
def test_time_limits(text, ours):
    assert time_limit(text) == ours


@pytest.mark.parametrize("text", ["", "soon", "1:2:3:4", "-5", "1e3", "9" * 400])
def test_what_is_not_a_time_is_refused(text):
    with pytest.raises(ValueError, match="not a time"):
        time_limit(text)


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("o-%j.out", "o-%j.out"),
        ("%x.%N.%J", "%x.%n.%j"),
        ("%A_%a", "%A_%a"),
        ("100%%", "100%%"),
        ("%4j.%03a.%5N", "%4j.%03a.%5n"),
        ("/dev/null", "/dev/null"),
    ],
)
def test_file_names(text, ours):
    assert file_pattern(text) == ours


@pytest.mark.parametrize(("text", "why"), [("%t.out", "'%t'"), ("a\\%j", "backslash")])
def test_file_names_without_an_equivalent(text, why):
    with pytest.raises(ValueError, match=why):
        file_pattern(text)


@pytest.mark.parametrize(
    ("text", "ours"), [("a100", "a100"), ("a&b", "a,b"), ("[v100]", "v100"), ("ib, ssd", "ib,ssd")]
)
def test_features(text, ours):
    assert constraint(text) == ours


@pytest.mark.parametrize("text", ["a|b", "[a*2&b*2]", "GPU:A40", "", "a&&b", "(a)"])
def test_features_without_an_equivalent(text):
    with pytest.raises(ValueError, match="labels"):
        constraint(text)


def test_gpus_of_any_model_and_of_named_ones():
    assert gpus("4") == "4"
    assert gpus("a100:2,v100:1") == "a100:2,v100:1"
    for text in ("many", "a100:", ":2", "a:b:2", "", "a100:2,"):
        with pytest.raises(ValueError, match="not a number"):
            gpus(text)


@pytest.mark.parametrize(
    ("text", "ours"), [("", "15"), ("0", "16"), ("1", "15"), ("100", "15"), ("101", "14"), ("2147483645", "1")]
)
def test_nicer_is_less_urgent(text, ours):
    assert urgency_of_nice(text) == ours


@pytest.mark.parametrize(
    ("text", "why"), [("-5", "administrators"), ("much", "whole number"), ("9" * 400, "whole number")]
)
def test_what_is_not_nice(text, why):
    with pytest.raises(ValueError, match=why):
        urgency_of_nice(text)


def test_exported():
    assert [exported(text) for text in ("NIL", "ALL,A=1")] == ["NONE", "ALL,A=1"]
