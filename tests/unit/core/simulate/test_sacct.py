import pytest

from rankd.core.errors import Refused
from rankd.core.simulate.sacct import is_sacct, read_sacct
from rankd.core.simulate.trace import TraceJob

HEADER = b"JobID|Submit|Elapsed|Timelimit|ReqCPUS|AllocCPUS|User|Account|Partition\n"
JOB = b"17|2026-05-01T12:00:00|01:00:05|1-00:00:00|4|8|ada|physics|batch\n"


def refusal(*lines):
    with pytest.raises(Refused) as caught:
        list(read_sacct(lines))
    assert caught.value.code == "bad_trace"
    return caught.value.message


def test_a_job_is_read_by_the_names_of_the_header_and_its_steps_are_passed_over():
    [job] = read_sacct([HEADER, JOB, JOB.replace(b"17|", b"17.batch|", 1), JOB.replace(b"17|", b"17.0|", 1)])
    assert job == TraceJob("17", 1777636800.0, 3605.0, 8.0, 4.0, 86400.0, "ada", "physics", "batch", "batch")


def test_raw_fields_are_seconds_and_minutes():
    header = b"Submit|JobIDRaw|ElapsedRaw|TimelimitRaw|NCPUS\n"
    [job] = read_sacct([header, b"1777636800|9|30|2|1\n"])
    assert (job.number, job.submit_s, job.run_s, job.limit_s) == ("9", 1777636800.0, 30.0, 120.0)
    assert (job.requested, job.allocated, job.user) == (-1.0, 1.0, "")


@pytest.mark.parametrize(
    ("tres", "others"),
    [
        (b"billing=8,cpu=8,gres/gpu=4,node=2", (("gpu", 4),)),
        (b"gres/gpu:A100=1,gres/gpu=1,mem=2G", (("gpu:a100", 1), ("memory", 2 << 30))),
        (b"cpu=1,mem=1500M,gres/gpu=0", (("memory", 1500 << 20),)),
        (b"cpu=1,mem=many", ()),
        (b"gres/gpu=1e300", (("gpu", 2**60),)),
        (b"", ()),
    ],
)
def test_memory_and_gpus_are_those_of_the_tres(tres, others):
    [job] = read_sacct([HEADER.replace(b"\n", b"|AllocTRES\n"), JOB.replace(b"\n", b"|" + tres + b"\n")])
    assert job.others == others


def test_what_was_asked_for_counts_before_what_was_allocated():
    header = HEADER.replace(b"\n", b"|AllocTRES|ReqTRES\n")
    [job] = read_sacct([header, JOB.replace(b"\n", b"|gres/gpu:a100=2,gres/gpu=2|gres/gpu=2\n")])
    assert job.others == (("gpu", 2),)


def test_what_has_no_limit_or_has_not_started_is_unknown():
    [job] = read_sacct([HEADER, b"4_[7-9]|2026-05-01T12:00:00|00:00:00|UNLIMITED|4|0|ada|physics|batch\n"])
    assert (job.run_s, job.limit_s, job.allocated) == (0.0, -1.0, 0.0)


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        (
            (b"JobID|Submit|Elapsed|Timelimit\n",),
            "line 1: no field for its cores (alloccpus or ncpus or reqcpus); write",
        ),
        ((HEADER, JOB, b"18|2026\n"), "line 3: it has 2 fields, the header 9; leave out fields such as JobName"),
        ((HEADER, JOB.replace(b"2026-05-01T12", b"yesterday")), "line 2: submit: 'yesterday"),
        ((HEADER, JOB.replace(b"2026-05", b"2026-13")), "line 2: submit: Month out of range"),
        ((HEADER, JOB.replace(b"01:00:05", b"soon")), "line 2: elapsed: 'soon' is not a time"),
        ((HEADER, JOB.replace(b"|4|", b"|many|")), "line 2: reqcpus: 'many' is not a number"),
        ((HEADER, JOB.replace(b"|4|", b"|nan|")), "line 2: reqcpus: 'nan' is not a number"),
    ],
)
def test_a_line_that_is_no_job_is_refused_with_its_number(lines, what):
    assert refusal(*lines).startswith(what)


def test_the_format_is_known_by_its_first_line():
    assert is_sacct(HEADER)
    assert not is_sacct(b"; MaxProcs: 8\n")
    assert not is_sacct(b"1 0 -1 10 1 -1 -1 1 60 -1 1 1 1 -1 -1 -1 -1 -1\n")
