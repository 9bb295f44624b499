"""YAML read by libyaml: the same values as without it, and no text that ends the process."""

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
