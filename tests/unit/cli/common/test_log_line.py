"""The last line of a service's log, as ``rankd up`` quotes it."""

from __future__ import annotations

import pytest

from rankd.services.runtime.log_file import LONGEST_LINE, last_line


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", ""),
        (b"\n \n", ""),
        (b"first\nlast", "last"),
        (b"first\nlast\n\n", "last"),
        (b"x" * 100_000 + b"\nlast\n", "last"),
        (b"first\n" + b"y" * 100_000, "y" * LONGEST_LINE),
        (b"\xff\n", "\ufffd"),
    ],
)
def test_the_last_line_is_the_last_with_something_in_it(tmp_path, content, line):
    log = tmp_path / "service.log"
    log.write_bytes(content)
    assert last_line(log) == line


def test_a_log_that_is_not_there_has_no_line(tmp_path):
    assert last_line(tmp_path / "none") == ""
