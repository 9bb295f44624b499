import gzip

import pytest

from rankd.cli.what_if.trace_file import LONGEST_LINE, read_trace, trace_lines
from rankd.core.errors import Refused


def lines(path):
    with trace_lines(str(path)) as found:
        return list(found)


def test_a_compressed_file_is_known_by_its_content_not_by_its_name(tmp_path):
    (tmp_path / "plain.swf.gz").write_bytes(b"a\nb\n")
    (tmp_path / "packed.swf").write_bytes(gzip.compress(b"a\nb\n"))
    assert lines(tmp_path / "plain.swf.gz") == lines(tmp_path / "packed.swf") == [b"a\n", b"b\n"]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"x" * (LONGEST_LINE + 1), "line 1 is longer than"),
        (gzip.compress(b"\n" + b"x" * 10**7, mtime=0), "line 2 is longer than"),
        (gzip.compress(b"abc\n" * 1000, mtime=0)[:-9], "the compressed file is damaged"),
        (b"\x1f\x8b\x08\x00damaged", "damaged"),
    ],
)
def test_a_hostile_file_is_refused(tmp_path, content, what):
    (tmp_path / "trace").write_bytes(content)
    with pytest.raises(Refused, match=what):
        lines(tmp_path / "trace")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(Refused, match=r"no\.swf can't be read: No such file"):
        lines(tmp_path / "no.swf")


@pytest.mark.parametrize("content", [b"", b"; only a comment\n", b"JobID|Submit|Elapsed|Timelimit|ReqCPUS\n"])
def test_a_file_without_jobs_is_refused(tmp_path, content):
    (tmp_path / "trace").write_bytes(content)
    with pytest.raises(Refused, match=r"no jobs in .*trace"):
        list(read_trace(str(tmp_path / "trace")))
