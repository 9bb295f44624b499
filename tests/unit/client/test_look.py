import msgspec
import pytest

from rankd.client.blocking import carry_out
from rankd.client.look import look, rows
from rankd.client.step import Effort
from rankd.wire.job_selection import JobFilter


class After(msgspec.Struct):
    after: int


class Page(msgspec.Struct):
    jobs: list[int]
    next: After | msgspec.UnsetType = msgspec.UNSET


class Paged:
    """Answers with two rows of five per page."""

    largest = 1000

    def __init__(self):
        self.sizes = []

    def request(self, _verb, payload, _kind, *, timeout_s):
        assert timeout_s > 0
        request = msgspec.json.decode(payload)
        self.sizes.append(request["limit"])
        begin = request["after"] or 0
        found = list(range(begin + 1, min(begin + 1 + min(2, request["limit"]), 6)))
        return Page(jobs=found, **({"next": After(found[-1])} if found[-1] < 5 else {}))


@pytest.mark.parametrize(("most", "expected"), [(None, [1, 2, 3, 4, 5]), (3, [1, 2, 3]), (2, [1, 2])])
def test_lists_are_asked_for_page_by_page_up_to_the_limit(most, expected):
    paged = Paged()
    assert carry_out(rows("job.list", "jobs", JobFilter(), Page, Effort(0), most), paged) == expected
    assert all(size <= (1000 if most is None else most) for size in paged.sizes)


def test_a_single_answer_is_one_request():
    paged = Paged()
    assert carry_out(look("job.list", JobFilter(limit=1), Page, Effort(0)), paged).jobs == [1]
