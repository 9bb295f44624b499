"""YAML read by libyaml: the same values as without it, and no text that ends the process."""

import itertools

import pytest
import yaml

from rankd.config.yaml_lines import Unreadable
from rankd.config.yaml_value import load_yaml


@pytest.mark.parametrize(
    "text",
    [
        "", "a: 1", "a: [1, {b: 2.5}]\nc: 'x: [y'\n", "- - - 1\n- {a: null}\n", "a: &x {b: 1}\nc: *x\n",
        "# [\nname: first.last\nshares: parent\n", "a:\n  b:\n  - c\n", "a: .nan", "yes: no",
    ],
)  # fmt: skip
def test_values_are_those_of_the_slower_loader(text):
    assert repr(load_yaml(text)) == repr(yaml.safe_load(text))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000, '[ "]",\n' * 100_000, "- " * 100_000, "? " * 100_000, "{a: " * 100_000,
        "".join(" " * depth + "a:\n" for depth in range(2000)),
    ],
)  # fmt: skip
def test_what_is_nested_beyond_all_reason_is_refused(text):
    with pytest.raises(Unreadable, match="nested more than 100 levels"):
        load_yaml(text)


def test_characters_that_yaml_does_not_have_are_refused_with_their_line():
    with pytest.raises(Unreadable, match="is not allowed in YAML") as caught:
        load_yaml("a: 1\nb: \x07\n")
    assert caught.value.line == 2


@pytest.mark.parametrize("text", ["a: [", "!!python/object:os.system x", "a: 1\n---\nb: 2\n"])
def test_what_is_no_single_plain_document_is_refused(text):
    with pytest.raises(yaml.MarkedYAMLError):
        load_yaml(text)


NAMES = itertools.pairwise("abcdefghijk")
BOMB = "".join(f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in NAMES)


@pytest.mark.parametrize("text", ["&a [*a]", "a: &a {b: [*a]}", f"a: &a [x]\n{BOMB}"])
def test_references_that_mean_endlessly_many_values_are_refused(text):
    with pytest.raises(Unreadable, match="its references"):
        load_yaml(text)


def test_a_few_references_are_written_out():
    assert load_yaml("a: &a [1, 2]\nb: [*a, *a]") == {"a": [1, 2], "b": [[1, 2], [1, 2]]}
