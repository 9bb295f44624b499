"""What the field ``notify`` of a job may ask for."""

import pytest
from builder import admission_tables

from rankd.core.admission.admission_cache import Admission
from rankd.core.admission.notify_check import MOST_TARGETS, decide_notify, targets_of
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused
from rankd.core.model.job import JobRequest
from rankd.core.model.notification import Notify
from rankd.core.model.service_setting import NotificationSettings
from rankd.core.model.setting import Settings

OPEN = NotificationSettings(allow=["mailto:*@example.org"], mail_domain="example.org")
ALICE = Submitter("alice", privileged=False)


def refusal(notify: Notify, settings: NotificationSettings = OPEN, *, is_array: bool = False) -> Refused:
    with pytest.raises(Refused) as refused:
        decide_notify(notify, "alice", settings, is_array=is_array)
    assert refused.value.field == "notify"
    return refused.value


def test_nothing_is_allowed_unless_the_administrator_says_so():
    found = refusal(Notify(on=["end"], to=["mailto:alice@example.org"]), NotificationSettings())
    assert (found.code, found.status) == ("notification_not_allowed", 403)


def test_each_target_has_to_be_allowed():
    found = refusal(Notify(on=["end"], to=["mailto:alice@example.org", "mailto:alice@other.org"]))
    assert found.code == "notification_not_allowed"
    assert "alice@other.org" in found.message


def test_a_refusal_names_every_target_that_is_not_allowed():
    found = refusal(Notify(on=["end"], to=["mailto:a@other.org", "mailto:alice@example.org", "https://hooks.org/x"]))
    assert "'mailto:a@other.org', 'https://hooks.org/x'" in found.message
    assert "alice@example.org" not in found.message


def test_each_target_is_decided_for_itself_if_others_may_be_left_out():
    wanted = Notify(on=["end"], to=["mailto:alice@other.org", "mailto:alice"], if_allowed=True)
    found = decide_notify(wanted, "alice", OPEN, is_array=False)
    assert found.notify.to == ["mailto:alice"]
    [remark] = found.remarks
    assert remark.startswith("the job does not notify 'mailto:alice@other.org': this site does not allow")
    assert decide_notify(found.notify, "alice", OPEN, is_array=False) == (found.notify, ()), "as a retry does"


@pytest.mark.parametrize("settings", [OPEN, NotificationSettings()])
@pytest.mark.parametrize("to", [["mailto:alice@other.org"], ["https://other.org/"]])
def test_without_an_allowed_target_the_job_notifies_nobody(settings, to):
    found = decide_notify(Notify(on=["end"], to=to, if_allowed=True), "alice", settings, is_array=False)
    assert found.notify is None
    assert [remark.partition(":")[0] for remark in found.remarks] == ["the job notifies nobody"]


@pytest.mark.parametrize("host", ["localhost", "10.0.0.5", "[::1]"])
def test_an_allowed_address_to_which_nothing_is_sent_is_remarked(host):
    wanted = Notify(on=["end"], to=[f"https://{host}/x", "https://hooks.example.org/x"])
    settings = NotificationSettings(allow=["https://*/*", f"https://{host}/*"])
    found = decide_notify(wanted, "alice", settings, is_array=False)
    assert found.notify is wanted
    [remark] = found.remarks
    assert remark.startswith(f"no notification will reach 'https://{host}/x': ")
    named = NotificationSettings(allow=settings.allow, private_hosts=[host])
    assert decide_notify(wanted, "alice", named, is_array=False) == (wanted, ())


def test_administrators_are_bound_by_the_list_too():
    settings = Settings(notifications=OPEN)
    admission = Admission(admission_tables(settings=settings))
    job = JobRequest(command=["true"], notify=Notify(on=["end"], to=["mailto:x@other.org"]), account="physics")
    with pytest.raises(Refused, match="does not allow"):
        admission.admit(job, Submitter("alice", privileged=True))


@pytest.mark.parametrize(
    "notify",
    [
        Notify(on=[]),
        Notify(on=["tasks"]),
        Notify(on=["end"], to=["http://x/"]),
        Notify(on=["end"] * 17),
        Notify(on=["end"], to=[f"mailto:a{n}@example.org" for n in range(MOST_TARGETS + 1)]),
    ],
)
def test_what_means_nothing_is_refused(notify):
    assert refusal(notify).code == "bad_notify"


def test_an_array_as_a_whole_has_no_timeout():
    assert refusal(Notify(on=["timeout", "requeue"]), is_array=True).code == "bad_notify"
    decide_notify(Notify(on=["timeout", "tasks"]), "alice", OPEN, is_array=True)
    decide_notify(Notify(on=["all"]), "alice", OPEN, is_array=True)


def test_without_a_target_it_is_the_users_own_mailbox():
    assert [one.address for one in targets_of(Notify(on=["end"]), "alice", "example.org")] == ["alice@example.org"]
    with pytest.raises(Refused, match="mail_domain"):
        targets_of(Notify(on=["end"]), "alice", None)
    with pytest.raises(Refused, match="not one mail address"):
        targets_of(Notify(on=["end"]), "a b\r\nBcc: x", "example.org")


def test_a_job_like_an_earlier_one_is_checked_as_well():
    admission = Admission(admission_tables(settings=Settings(notifications=OPEN)))
    admission.admit(JobRequest(command=["true"]), ALICE)
    admission.admit(JobRequest(command=["true"], notify=Notify(on=["end"])), ALICE)
    for array in (None, "0-3"):
        with pytest.raises(Refused, match="does not allow"):
            admission.admit(
                JobRequest(command=["true"], array=array, notify=Notify(on=["end"], to=["mailto:x@other.org"])), ALICE
            )


def test_remarks_of_a_job_are_not_those_of_the_next_one_like_it():
    admission = Admission(admission_tables(settings=Settings(notifications=OPEN)))
    doubtful = Notify(on=["end"], to=["mailto:alice", "mailto:x@other.org"], if_allowed=True)
    for notify, remarks in ((doubtful, 1), (None, 0), (doubtful, 1), (Notify(on=["end"]), 0)):
        accepted = admission.admit(JobRequest(command=["true"], notify=notify), ALICE)
        assert len(accepted.remarks) == remarks
        assert accepted.request.notify is None or "mailto:x@other.org" not in accepted.request.notify.to
