"""What templates show of amounts, durations, charts and texts of users."""

import json

import pytest
from markupsafe import Markup

from rankd.services.web.template import MOST_CHARACTERS, NONE, Template, _brief, _instant, _percent


@pytest.mark.parametrize(("seconds", "shown"), [(0.00042, "0.4 ms"), (0.0123, "12 ms"), (1.26, "1.3 s"), (0, "0.0 ms")])
def test_a_short_duration_has_a_unit(seconds, shown):
    assert _brief(seconds) == shown


def test_what_is_no_date_keeps_no_page_from_being_shown():
    assert _instant(1e34) == NONE
    assert "1970-01-01 00:00:01 UTC" in _instant(1.0)


def test_a_chart_of_many_points_is_whole_and_escaped():
    """A text of a user is cut; the numbers of a chart may not be, since a script reads them."""
    found = json.dumps({"names": ['"><b>'], "values": [[n + 0.5 for n in range(3_000)]]})
    template = Template(lambda: 0.0)._environment.from_string('<p data-chart="{{ found | chart }}">{{ found }}')
    chart, _, text = template.render(found=found).removeprefix('<p data-chart="').partition('">')
    assert Markup(chart).unescape() == found
    assert len(text) < MOST_CHARACTERS + 100
    assert "<b>" not in chart


@pytest.mark.parametrize(("value", "shown"), [(None, NONE), (0.0, "0.0%"), (0.0004, "<0.1%"), (0.0006, "0.1%")])
def test_a_part_that_is_not_nothing_is_not_shown_as_nothing(value, shown):
    assert _percent(value) == shown
