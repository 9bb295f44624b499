"""YAML as text with lines. ``<<`` and aliases are as in the YAML specification ("Merge Key", examples 2.10)."""

import pytest

from rankd.config.yaml_lines import DEEPEST, Entries, Items, Scalar, Unreadable, compose, from_data


def only(text):
    [document] = compose(text)
    return document


def test_scalars_stay_the_text_that_was_written():
    assert only("max: {vcore: 010, on: yes}").nodes["max"].nodes["vcore"].written == "010"
    assert [only(text).is_null for text in ("~", "null", "'null'", "''")] == [True, True, False, False]


def test_every_value_knows_its_line():
    tree = only("a: 1\nb:\n  - x\n  - y\n")
    assert tree.lines == {"a": 1, "b": 2}
    assert [item.line for item in tree.nodes["b"].nodes] == [3, 4]


def test_a_key_that_is_written_again_is_noted_and_the_first_value_stays():
    tree = only("a: 1\na: 2\n")
    assert tree.nodes["a"].written == "1"
    assert tree.repeated == (("a", 2),)


def test_of_several_merged_mappings_the_first_wins_and_own_keys_win_over_all():
    text = """
- &CENTER { x: 1, y: 2 }
- &BIG { r: 10 }
- &SMALL { r: 1 }
- { <<: [ *BIG, *SMALL ], x: 7 }
"""
    merged = only(text).nodes[3]
    assert {key: node.written for key, node in merged.nodes.items()} == {"x": "7", "r": "10"}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: [1\nb", 2),
        ("a: &x [*x]", 1),
        ("a:\n  ? [1]\n  : 2\n", 2),
        ("<<: 5", 1),
        ("a: \x07", 1),
        ("[" * (DEEPEST + 2) + "]" * (DEEPEST + 2), 1),
    ],
)
def test_what_cannot_be_walked_is_refused_with_its_line(text, line):
    with pytest.raises(Unreadable) as error:
        compose(text)
    assert error.value.line == line


def test_a_document_that_its_aliases_blow_up_is_refused():
    lines = ["a0: &a0 [1,1,1,1,1,1,1,1,1,1]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 7)]
    with pytest.raises(Unreadable, match="with its aliases written out"):
        compose("\n".join(lines))


def test_decoded_data_is_as_if_its_yaml_had_been_read():
    found = from_data({"a": [1, None, True, "true"]})
    assert isinstance(found, Entries)
    items = found.nodes["a"]
    assert isinstance(items, Items)
    assert [(node.written, node.plain) for node in items.nodes if isinstance(node, Scalar)] == [
        ("1", True), ("null", True), ("true", True), ("true", False),
    ]  # fmt: skip
