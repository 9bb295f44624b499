"""How much of a page fits into a message, and where the next one begins."""

import msgspec
import pytest

from rankd.store.look.page import Page, answer

ROWS = [{"id": number} for number in (1, 2, 3)]
ROW = len('{"id":1},')


def sent(page, room):
    """The answer as it is sent."""
    return msgspec.json.decode(msgspec.json.encode(answer(page, room)))


def page(rows=ROWS, *, more=False, **besides):
    return Page("jobs", rows, more, lambda row: {"after": row["id"]}, besides)


def test_a_whole_page_has_no_next_one():
    assert sent(page(total=3), 10_000) == {"jobs": ROWS, "total": 3}


def test_a_page_with_more_behind_it_says_where_to_go_on():
    assert sent(page(more=True), 10_000)["next"] == {"after": 3}


@pytest.mark.parametrize(("room", "n_rows"), [(0, 1), (1, 1), (ROW, 1), (2 * ROW, 2), (3 * ROW - 1, 2), (3 * ROW, 3)])
def test_only_rows_that_fit_are_sent_and_one_at_least(room, n_rows):
    found = sent(page(), room)
    assert found["jobs"] == ROWS[:n_rows]
    assert found.get("next") == (None if n_rows == 3 else {"after": n_rows})


def test_no_rows_have_no_next_page():
    assert sent(page([], more=True), 100) == {"jobs": []}


def test_rows_with_the_same_cursor_stay_together():
    rows = [{"id": number} for number in (1, 2, 2, 3)]
    assert sent(page(rows), 2 * ROW)["jobs"] == rows[:1], "the next page begins behind 1"
    assert sent(page(rows), 3 * ROW)["jobs"] == rows[:3]
    assert sent(page(rows[1:]), ROW) == {"jobs": rows[1:3], "next": {"after": 2}}
    assert sent(page(rows[1:3]), 1) == {"jobs": rows[1:3]}
