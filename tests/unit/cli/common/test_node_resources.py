"""What a node offers, as the option gives it."""

import argparse

import pytest

from rankd.cli.common.node_resources import OTHER_WORDS, node_resources


def test_own_kinds_of_resources_may_be_offered():
    assert node_resources("vcore=8,memory=16Gi,licence=2") == {"vcore": "8", "memory": "16Gi", "licence": "2"}


@pytest.mark.parametrize("word", OTHER_WORDS)
def test_other_programs_words_are_answered_with_ours(word):
    with pytest.raises(argparse.ArgumentTypeError, match=f"'{word}' is called {OTHER_WORDS[word]}; write"):
        node_resources(f"vcore=1,{word}=3")


@pytest.mark.parametrize("text", ["", "memory=16Gi", "vcroe=3"])
def test_a_node_without_cores_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="has no vcore"):
        node_resources(text)
