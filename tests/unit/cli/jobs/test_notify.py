"""``--notify`` and ``--notify-to`` as the field of a job."""

import pytest

from rankd.cli.jobs.delivery import Delivered
from rankd.cli.jobs.notify import as_allowed, notify_of, without_notify
from rankd.core.errors import Refused
from rankd.wire.message import Rejected


def test_events_and_targets():
    found = notify_of("END, fail", "mailto:a@b.org,https://h.org/x,y?z=1,2", may_lack_events=False)
    assert found == {"notify": {"on": ["end", "fail"], "to": ["mailto:a@b.org", "https://h.org/x,y?z=1,2"]}}


def test_without_targets_the_site_decides():
    assert notify_of("all", None, may_lack_events=False) == {"notify": {"on": ["all"]}}


@pytest.mark.parametrize("events", ["none", "tasks", "", "none,tasks"])
def test_no_event_means_no_notification(events):
    assert notify_of(events, "mailto:a@b.org", may_lack_events=False) == {}


def test_targets_alone_are_a_mistake_but_not_in_scripts_of_slurm():
    assert notify_of(None, "mailto:a@b.org", may_lack_events=True) == {}
    with pytest.raises(Refused, match="needs --notify"):
        notify_of(None, "mailto:a@b.org", may_lack_events=False)


def test_an_unknown_event_is_named():
    with pytest.raises(Refused, match="'soon' is not an event"):
        notify_of("end,soon", None, may_lack_events=False)


def test_jobs_without_the_field():
    assert without_notify([{"command": ["a"], "notify": {}}, {"command": ["b"]}]) == [
        {"command": ["a"]},
        {"command": ["b"]},
    ]


JOBS = [{"command": ["true"], "notify": {"on": ["end"]}}]


def test_a_job_is_sent_again_without_notifications_that_are_not_allowed(capsys):
    sent = []

    def submit(jobs):
        sent.append(jobs)
        if "notify" in jobs[0]:
            raise Refused("notification_not_allowed", "not here", "notify", status=403)
        return Delivered(ids={0: 7}, rejected=[])

    assert as_allowed(JOBS, submit).ids == {0: 7}
    assert sent == [JOBS, [{"command": ["true"]}]]
    assert "notifies nobody: not here" in capsys.readouterr().err


def test_a_batch_whose_notifications_are_refused_is_sent_again(capsys):
    bad = Rejected(index=0, code="notification_not_allowed", message="not here")
    answers = [Delivered(ids={}, rejected=[bad]), Delivered(ids={0: 1}, rejected=[])]
    assert as_allowed(JOBS, lambda _: answers.pop(0)).ids == {0: 1}
    assert "not here" in capsys.readouterr().err


def test_other_refusals_stay():
    def submit(_):
        raise Refused("bad_notify", "no", "notify")

    with pytest.raises(Refused, match="no"):
        as_allowed(JOBS, submit)
