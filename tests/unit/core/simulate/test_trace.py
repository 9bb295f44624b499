import pytest

from rankd.core.simulate.trace import LeftOut, Selection, TraceJob, over, select

USUAL = TraceJob("1", 0.0, 50.0, 2.0, 4.0, 40.0, "u1", "g1", "q1", "p1")


def chosen(*records, processors=8, **selection):
    return select(records, Selection(**selection), over(processors))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"run_s": 0.0, "limit_s": -1.0}, "no_run_time"),
        ({"limit_s": 0.0}, "no_limit"),
        ({"requested": -1.0, "allocated": 0.0}, "no_size"),
        ({"requested": 9.0}, "too_large"),
    ],
)
def test_jobs_that_can_not_be_simulated_are_counted_by_their_reason(fields, reason):
    assert chosen(USUAL, USUAL._replace(**fields))[1] == LeftOut(**{reason: 1})


@pytest.mark.parametrize(("column", "size"), [("max", 4), ("requested", 4), ("allocated", 2)])
def test_the_size_is_that_of_the_column(column, size):
    [job], _ = chosen(USUAL, column=column)
    assert job.processors == size


def test_a_size_that_is_not_known_is_that_of_the_other_column():
    [job], _ = chosen(USUAL._replace(requested=-1.0))
    assert job.processors == 2


@pytest.mark.parametrize(
    ("limit", "run_s", "limit_s"),
    [("requested", 40.0, 40.0), ("exact", 40.0, 40.0), (2.0, 40.0, 80.0), (0.5, 20.0, 20.0)],
)
def test_run_times_are_cut_at_the_limit(limit, run_s, limit_s):
    [job], _ = chosen(USUAL, limit=limit)
    assert (job.run_s, job.limit_s) == (run_s, limit_s)


def test_exact_limits_are_run_times():
    [job], _ = chosen(USUAL._replace(run_s=7.0), limit="exact")
    assert job.limit_s == 7.0


def test_the_first_records_are_counted_before_any_is_left_out():
    jobs, left_out = chosen(USUAL._replace(run_s=0.0), USUAL, USUAL, most=2)
    assert (len(jobs), left_out.no_run_time) == (1, 1)


def test_a_time_window_includes_its_beginning_but_not_its_end():
    records = [USUAL._replace(number=str(at), submit_s=float(at)) for at in range(5)]
    jobs, _ = chosen(*records, begin_s=1.0, end_s=3.0)
    assert [job.number for job in jobs] == ["1", "2"]


def test_jobs_are_in_the_order_of_submission_then_of_the_file():
    records = [USUAL._replace(number=number, submit_s=at) for number, at in (("a", 2.0), ("b", 1.0), ("c", 2.0))]
    assert [job.number for job in chosen(*records)[0]] == ["b", "a", "c"]


def test_jobs_of_an_unknown_user_have_one_in_common():
    [job], _ = chosen(USUAL._replace(user=""))
    assert job.user == "unknown"
