"""``--notify`` and ``--notify-to`` as the field of a job."""

import pytest

from rankd.client.batch.notify import notify_of
from rankd.core.errors import Refused


def test_events_and_targets():
    found = notify_of("END, fail", "mailto:a@b.org,https://h.org/x,y?z=1,2", if_allowed=False)
    assert found == {"notify": {"on": ["end", "fail"], "to": ["mailto:a@b.org", "https://h.org/x,y?z=1,2"]}}


def test_without_targets_the_site_decides():
    assert notify_of("all", None, if_allowed=False) == {"notify": {"on": ["all"]}}


@pytest.mark.parametrize("events", ["none", "tasks", "", "none,tasks"])
def test_no_event_means_no_notification(events):
    assert notify_of(events, "mailto:a@b.org", if_allowed=False) == {}


def test_targets_alone_are_a_mistake_but_not_in_scripts_of_slurm():
    assert notify_of(None, "mailto:a@b.org", if_allowed=True) == {}
    with pytest.raises(Refused, match="needs --notify"):
        notify_of(None, "mailto:a@b.org", if_allowed=False)


def test_an_unknown_event_is_named():
    with pytest.raises(Refused, match="'soon' is not an event"):
        notify_of("end,soon", None, if_allowed=False)
