import pytest

from rankd.core.errors import Refused
from rankd.core.simulate.swf import read_swf
from rankd.core.simulate.trace import TraceJob

JOB = b"17 3 2 60 4 -1 -1 8 120 -1 1 5 -1 -1 2 -1 -1 -1"


def refusal(*lines):
    with pytest.raises(Refused) as caught:
        list(read_swf(lines))
    assert caught.value.code == "bad_trace"
    return caught.value.message


def test_a_job_is_read_from_its_columns_and_comments_and_empty_lines_are_not():
    [job] = read_swf([b"; MaxProcs: 8\n", b"\n", JOB + b"\n"])
    assert job == TraceJob("17", 3.0, 60.0, 4.0, 8.0, 120.0, "u5", "", "q2", "")


def test_columns_of_an_extended_format_are_not_read():
    assert list(read_swf([JOB + b" {n1 n2} long 1:ppn=4"])) == list(read_swf([JOB]))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b"1 2 3", "line 2: it has 3 columns"),
        (JOB.replace(b" 60 ", b" nan "), "line 2: column 4: 'nan'"),
        (JOB.replace(b" 60 ", b" 1e300 "), "line 2: column 4: '1e300'"),
        (JOB.replace(b" 60 ", b" \xff\xfe "), "line 2: column 4"),
        (JOB.replace(b"17 3", b"17 -3"), "line 2: column 2, the time of submission, is negative"),
        (JOB.replace(b" 8 ", b" " + b"9" * 5000 + b" "), "line 2: column 8: '999"),
    ],
)
def test_a_line_that_is_no_job_is_refused_with_its_number(line, what):
    message = refusal(JOB, line)
    assert message.startswith(what)
    assert len(message) < 200


def test_a_trace_without_an_end_is_refused(monkeypatch):
    monkeypatch.setattr("rankd.core.simulate.swf.MOST_LINES", 3)
    assert len(list(read_swf([JOB] * 3))) == 3
    assert refusal(*[JOB] * 4).startswith("it has more than 3 lines")
