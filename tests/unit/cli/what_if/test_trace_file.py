import gzip

import pytest

from rankd.cli.what_if.trace_file import LONGEST_LINE, max_procs, read_trace, trace_lines
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


def test_a_bad_line_is_named_with_its_file_and_a_bad_first_one_with_the_formats(tmp_path):
    job = b"1 0 -1 10 1 -1 -1 1 60 -1 1 1 1 1 1 1 -1 -1\n"
    for content, what in (
        (b"hello\n", r"trace: line 1: it has 1 column; a job has 18\. A trace is in the Standard Workload Format"),
        (job + job[:9], r"trace: line 2: it has 4 columns; a job has 18$"),
        (
            gzip.compress(job * 1000, mtime=0)[:-9],
            r"trace: line [0-9]+: the compressed file is damaged.*fetch it again$",
        ),
    ):
        (tmp_path / "trace").write_bytes(content)
        with pytest.raises(Refused, match=what):
            list(read_trace(str(tmp_path / "trace")))


@pytest.mark.parametrize(
    ("header", "number"),
    [
        (b"; MaxProcs: 338\n", 338),
        (b";maxprocs:  64 (batch)\n1 0 -1\n", 64),
        (b"; MaxProcs: many\n", None),
        (b"; MaxProcs: 9999999999999\n", None),
        (b"1 0 -1\n; MaxProcs: 8\n", None),
        (b"", None),
    ],
)
def test_the_header_may_say_how_many_processors_there_were(tmp_path, header, number):
    (tmp_path / "trace").write_bytes(header)
    assert max_procs(str(tmp_path / "trace")) == number


@pytest.mark.parametrize("content", [b"", b"; only a comment\n", b"JobID|Submit|Elapsed|Timelimit|ReqCPUS\n"])
def test_a_file_without_jobs_is_refused(tmp_path, content):
    (tmp_path / "trace").write_bytes(content)
    with pytest.raises(Refused, match=r"no jobs in .*trace"):
        list(read_trace(str(tmp_path / "trace")))
