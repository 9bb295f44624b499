"""The rules for the field ``notify``: what it may ask for, and which targets the site allows."""

from __future__ import annotations

from rankd.core.errors import Refused
from rankd.core.model.notification import OF_WHOLE_ARRAYS, Notify, Wanted, wanted_of
from rankd.core.model.setting import NotificationSettings
from rankd.core.near_name import cut
from rankd.core.notification.allow_list import is_allowed
from rankd.core.notification.target import MAIL, BadTarget, Target, parse_target, with_domain

FIELD = "notify"
MOST_TARGETS = 8
MOST_KINDS = 16


def check_notify(notify: Notify, user: str, settings: NotificationSettings, *, is_array: bool) -> None:
    """Check what a job wants.

    Raises:
        Refused: ``bad_notify``, ``notification_not_allowed`` (403).
    """
    wanted = wanted_of(notify)
    if len(notify.on) > MOST_KINDS or len(notify.to) > MOST_TARGETS:
        raise _bad(f"it has {len(notify.on)} events and {len(notify.to)} targets; give at most {MOST_TARGETS} targets")
    if not wanted & ~Wanted.TASKS:
        raise _bad("it names no event; write start, end, fail, timeout, requeue, idle or all")
    if is_array and not wanted & (Wanted.TASKS | OF_WHOLE_ARRAYS):
        raise _bad("an array as a whole has no timeout and no GPUs, and is not queued again; add tasks, fail or end")
    if not settings.allow:
        message = "this site sends no notifications (notifications.allow is empty); leave notify out"
        raise Refused("notification_not_allowed", message, FIELD, status=403)
    for target in targets_of(notify, user, settings.mail_domain):
        if not is_allowed(target, settings.allow):
            message = f"this site does not allow notifications to '{cut(target.text)}'; ask an administrator to add it"
            raise Refused("notification_not_allowed", f"{message} to notifications.allow", FIELD, status=403)


def targets_of(notify: Notify, user: str, domain: str | None) -> list[Target]:
    """The targets, each once; without any, the mailbox of the job's user in the site's domain.

    Raises:
        Refused: ``bad_notify``: one is not a target.
    """
    try:
        wanted = dict.fromkeys(notify.to or [f"{MAIL}:{user}"])
        return [parse_target(with_domain(text, domain)) for text in wanted]
    except BadTarget as error:
        raise _bad(str(error)) from None


def _bad(why: str) -> Refused:
    return Refused("bad_notify", f"notify: {why}", FIELD)
