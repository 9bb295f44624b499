import pytest

from rankd.cli.run.complete import MOST, continued, is_safe, of_leaves, offered, place_words


@pytest.mark.parametrize("name", ["17", "17_3", "root.a", "root.größe", "n-1", "x" * 255])
def test_names_of_letters_digits_and_a_few_marks_are_offered(name):
    assert is_safe(name)


@pytest.mark.parametrize(
    "character", [chr(code) for code in range(0x80) if not (chr(code).isalnum() or chr(code) in "_.-")]
)
def test_no_character_that_a_shell_could_interpret_is_offered(character):
    assert not is_safe(f"a{character}b")


@pytest.mark.parametrize("name", ["", "-rf", "--help", "a\u202eb", "a\u3164b", "a\x9bb", "a\u00a0b", "\ud800"])
def test_neither_options_nor_invisible_characters_are_offered(name):
    assert not is_safe(name)


def test_what_continues_the_prefix_is_offered_once_and_not_without_end():
    assert offered(["root.b", "root.a", "root.b", "x"], "root.") == ["root.b", "root.a"]
    assert len(offered(map(str, range(10 * MOST)), "")) == MOST


def test_only_queues_that_take_jobs_are_offered_for_a_job():
    paths = ["root", "root.a", "root.a.b", "root.default", "root"]
    assert list(of_leaves(paths, "")) == ["a.b", "default"]
    assert (
        offered(of_leaves(paths, "r"), "r")
        == offered(of_leaves(paths, "root.a"), "root.")
        == ["root.a.b", "root.default"]
    )
    assert offered(of_leaves(paths, "a"), "a") == ["a.b"]


def test_a_list_is_continued_behind_its_last_comma():
    assert offered(["17", "170", "2"], "5,7-9,17") == ["5,7-9,17", "5,7-9,170"]


def test_a_number_is_continued_by_up_to_two_digits():
    assert set(continued(4)) == {4, *range(40, 50), *range(400, 500)}


@pytest.mark.parametrize(
    ("words", "joined"),
    [
        (["--dir", "=", "/x"], ["--dir=/x"]),
        (["--dir", "/x"], ["--dir", "/x"]),
        (["--dir=/x", "-q", "a"], ["--dir=/x", "-q", "a"]),
        (["cancel", "=", "1"], ["cancel", "=", "1"]),
    ],
)
def test_an_option_that_bash_has_cut_is_one_word_again(words, joined):
    assert place_words(words) == joined
