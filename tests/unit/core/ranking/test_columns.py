import numpy as np
import pytest
from builder import NOW, columns, job_row

from rankd.core.ranking.columns import NO_GROUP, JobColumns, JobRow

NONE_GONE = np.empty(0, dtype=np.int64)


def gone(*ids):
    return np.array(ids, dtype=np.int64)


def as_rows(jobs):
    """Back to rows, NaN as None, so that columns can be compared."""
    fields = [getattr(jobs, name).tolist() for name in jobs.__struct_fields__]
    return [JobRow(*(None if value != value else value for value in row)) for row in zip(*fields, strict=True)]  # noqa: PLR0124 - NaN


def test_columns_stand_in_the_order_of_ids_whatever_the_order_of_rows():
    rows = [job_row(3, class_value=30), job_row(1, class_value=10), job_row(2, class_value=20)]
    jobs = columns(*rows)
    assert jobs.ids.tolist() == [1, 2, 3]
    assert jobs.class_values.tolist() == [10, 20, 30]


def test_columns_hold_every_field_of_their_rows():
    rows = [
        job_row(
            7, association=1, queue=2, qos=3, partition=4, application=5, class_value=-6, urgency=31, nodes=8, vcore=9,
            shape=10, time_limit_s=60.5, submitted_at=NOW - 1, eligible_at=NOW + 1, fixed_priority=-11,
        ),
        job_row(8, time_limit_s=None, eligible_at=None, fixed_priority=None),
    ]  # fmt: skip
    assert as_rows(columns(*rows)) == rows


def test_no_rows_are_no_jobs():
    jobs = JobColumns.from_rows([])
    assert len(jobs) == 0
    assert jobs.eligible.tolist() == []
    assert jobs.cores.tolist() == []
    assert jobs.ids.dtype == np.int64
    assert jobs.eligible_at.dtype == np.float64


def test_a_job_is_eligible_from_its_eligible_at_on_and_never_without_one():
    assert columns(job_row(1, eligible_at=NOW), job_row(2, eligible_at=None)).eligible.tolist() == [True, False]


@pytest.mark.parametrize(("nodes", "vcore", "cores"), [(1, 500, 0.5), (4, 2000, 8.0), (3, 0, 0.0)])
def test_cores_are_those_of_all_nodes(nodes, vcore, cores):
    assert columns(job_row(1, nodes=nodes, vcore=vcore)).cores.tolist() == [cores]


def test_an_absurd_number_of_cores_is_large_and_not_negative():
    jobs = columns(job_row(1, nodes=1_000_000, vcore=2**62))
    assert jobs.cores.tolist() == [1_000_000.0 * 2.0**62 / 1000.0]


def test_merged_rows_replace_jobs_of_the_same_id():
    jobs = columns(job_row(1), job_row(2), job_row(3)).merge(NONE_GONE, [job_row(2, urgency=7)])
    assert jobs.ids.tolist() == [1, 2, 3]
    assert jobs.urgencies.tolist() == [16, 7, 16]


def test_merging_takes_away_and_adds_in_any_order_of_ids():
    jobs = columns(job_row(2), job_row(4), job_row(6)).merge(gone(4, 99), [job_row(5), job_row(1)])
    assert jobs.ids.tolist() == [1, 2, 5, 6]


def test_merging_nothing_changes_nothing():
    jobs = columns(job_row(1), job_row(2))
    assert as_rows(jobs.merge(NONE_GONE, [])) == as_rows(jobs)


def test_the_last_job_can_go():
    assert len(columns(job_row(1)).merge(gone(1), [])) == 0


def test_jobs_can_come_into_nothing():
    assert JobColumns.from_rows([]).merge(gone(5), [job_row(1, application=NO_GROUP)]).ids.tolist() == [1]


def test_taken_jobs_stand_in_the_order_of_their_places():
    assert columns(job_row(1), job_row(2), job_row(3)).take(np.array([2, 0])).ids.tolist() == [3, 1]
