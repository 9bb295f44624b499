"""Documents in, answers out: one, or one per line."""

import io
import json
import sys
from types import SimpleNamespace

import pytest

from rankd.cli.common.document import BAD_DOCUMENT, answer_lines, answer_one, decode, print_answer, read_bytes
from rankd.core.errors import ConfigurationError, Problem, Refused


def doubled(data):
    number = decode(data)
    if not isinstance(number, int):
        raise ConfigurationError([Problem(path="$", message="this is\nno number")])
    return 2 * number


@pytest.fixture
def standard_input(monkeypatch):
    def give(data):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))

    return give


def test_a_document_is_a_file_or_standard_input(tmp_path, standard_input):
    (tmp_path / "in.json").write_bytes(b"21")
    standard_input(b"4")
    assert (read_bytes(str(tmp_path / "in.json")), read_bytes("-")) == (b"21", b"4")


def test_a_file_that_is_not_there_is_refused(tmp_path):
    path = str(tmp_path / "none.json")
    for read in (read_bytes, lambda name: answer_lines(name, doubled)):
        with pytest.raises(Refused, match="No such file") as caught:
            read(path)
        assert caught.value.code == "usage"


def test_one_document_is_answered(standard_input):
    shown = []
    standard_input(b"21")
    assert answer_one("-", doubled, shown.append) == 0
    assert shown == [42]


def test_errors_of_one_document_are_one_line_each(standard_input, capsys):
    standard_input(b'"x"')
    assert answer_one("-", doubled, print) == BAD_DOCUMENT
    assert capsys.readouterr() == ("", "$: this is no number\n")


def test_each_line_has_its_answer_in_the_same_order(standard_input, capfdbinary):
    standard_input(b'1\n"x"\n{broken\n3')
    assert answer_lines("-", doubled) == 0
    answers = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert (answers[0], answers[3]) == (2, 6)
    assert answers[1] == {"errors": [{"path": "$", "message": "this is\nno number"}]}
    assert "this is not JSON" in answers[2]["errors"][0]["message"]


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_not_json_is_a_problem_of_the_document(data):
    with pytest.raises(ConfigurationError, match="this is not JSON"):
        decode(data)


def test_answers_are_compact_or_indented(capsys):
    print_answer({"a": [1]}, compact=True)
    print_answer({"a": 1}, compact=False)
    assert capsys.readouterr().out == '{"a":[1]}\n{\n  "a": 1\n}\n'
