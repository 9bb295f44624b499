"""How the documentation's outputs are compared: what varies may, nothing else."""

import pytest
from doc_page import blocks, commands, differs

SHOWN = "JOBID NAME   TIME\n    1 train  0:06"


@pytest.mark.parametrize(
    "actual", [SHOWN, "JOBID NAME TIME\n1 train 12:34", "JOBID NAME TIME   \n 1 train 1-02:03:04\n"]
)
def test_times_and_the_width_of_columns_vary(actual):
    assert not differs(SHOWN, actual)


@pytest.mark.parametrize("actual", ["", SHOWN + "\n2 fit 0:01", SHOWN.replace("train", "fit"), SHOWN.replace("1", "2")])
def test_anything_else_is_a_difference(actual):
    assert differs(SHOWN, actual)


@pytest.mark.parametrize(
    ("shown", "actual", "varying"),
    [
        ("a … c", "a b c", ""),
        ("first\n…\nlast", "first\nlast", ""),
        ("first\n…\nlast", "first\nx\ny\nlast", ""),
        ("intake: ready (pid 17) database 1.2 ms", "intake: ready (pid 4711) database 30 ms", ""),
        ("nats://127.0.0.1:36019", "nats://127.0.0.1:1", ""),
        ("at 2030-01-31T08:00:00 on", "at 2026-11-22T14:00:01 on", ""),
        ("-- ----", "-- ----------", ""),
        ("age 0.0014 x", "age 1.5 x", "0.0014"),
        ("(generation 10), 1.5", "(generation 7), 1.5", ""),
    ],
)
def test_placeholders(shown, actual, varying):
    assert not differs(shown, actual, varying)


@pytest.mark.parametrize(
    ("shown", "actual", "varying"),
    [("first\n…\nlast", "first\nx", ""), ("age 0.0014 x 2", "age 1.5 x 3", "0.0014"), ("rank 5", "rank 6", "")],
)
def test_placeholders_hide_nothing_else(shown, actual, varying):
    assert differs(shown, actual, varying)


def test_a_page_is_read_block_by_block(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- run: export X=1 -->\n<!-- varies: 5 -->\n```console\n$ echo 'a\nb' \\\n   c\na\n…\n$ true\n```\n"
        "<!-- not run: needs Docker -->\n```sh\ndocker\n```\n<!-- not run: of another block -->\ntext\n"
        "```json\n{}\n```\n"
        "```toml\nx = 1\n```\n<!-- file: a.toml -->\n```toml\ny = 1\n```\n"
    )
    found = blocks(page)
    assert [block.language for block in found] == ["run", "console", "sh", "json", "toml"]
    assert [block.not_run for block in found] == ["", "", "needs Docker", "", ""]
    assert [(command.text, command.shown) for command in commands(found[1])] == [
        ("echo 'a\nb' \\\n   c", "a\n…"),
        ("true", None),
    ]
