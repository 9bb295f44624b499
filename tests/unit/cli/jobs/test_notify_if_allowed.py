"""Jobs without their notifications where the site does not allow these."""

import pytest

from rankd.cli.jobs.delivered import Delivered
from rankd.cli.jobs.notify_if_allowed import as_allowed, without_notify
from rankd.core.errors import Refused
from rankd.wire.message import Rejected


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
