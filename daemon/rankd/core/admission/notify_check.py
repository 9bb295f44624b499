"""The rules for the field ``notify``: what it may ask for, and which targets the site allows. Each is decided alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from rankd.core.errors import Refused
from rankd.core.model.notification import OF_WHOLE_ARRAYS, Notify, Wanted, wanted_of
from rankd.core.model.service_setting import NotificationSettings
from rankd.core.near_name import cut
from rankd.core.notification.address import is_known_private
from rankd.core.notification.allow_list import is_allowed
from rankd.core.notification.target import MAIL, WEB, BadTarget, Target, parse_target, with_domain

FIELD = "notify"
MOST_TARGETS = 8
MOST_KINDS = 16
NONE_ALLOWED = "this site sends no notifications (notifications.allow is empty)"
LEAVE_OUT = "; leave out --notify and --notify-to, or the field notify"


class NotifyDecision(NamedTuple):
    """What a job may have. ``notify``: None if no target is left. ``remarks``: what the user should know about it."""

    notify: Notify | None
    remarks: tuple[str, ...] = ()


def decide_notify(notify: Notify, user: str, settings: NotificationSettings, *, is_array: bool) -> NotifyDecision:
    """What a job may have of what it wants. With ``if_allowed``, targets that are not allowed are left out.

    Raises:
        Refused: ``bad_notify``, ``notification_not_allowed`` (403).
    """
    _check_events(notify, is_array=is_array)
    targets = targets_of(notify, user, settings.mail_domain) if settings.allow else []
    refused = [target for target in targets if not is_allowed(target, settings.allow)]
    if (refused or not settings.allow) and not notify.if_allowed:
        message = _why(refused, settings) + ("" if settings.allow else LEAVE_OUT)
        raise Refused("notification_not_allowed", message, FIELD, status=403)
    allowed = [target for target in targets if target not in refused]
    if not allowed:
        return NotifyDecision(None, (f"the job notifies nobody: {_why(refused, settings)}",))
    remarks = [f"the job does not notify {_named(refused)}: {_why(refused, settings)}"] if refused else []
    remarks += [_unreachable(target) for target in allowed if _is_unreachable(target, settings)]
    if refused:
        given = zip(_texts(notify, user), targets, strict=True)
        notify = msgspec.structs.replace(notify, to=[text for text, target in given if target in allowed])
    return NotifyDecision(notify, tuple(remarks))


def _check_events(notify: Notify, *, is_array: bool) -> None:
    wanted = wanted_of(notify)
    if len(notify.on) > MOST_KINDS or len(notify.to) > MOST_TARGETS:
        raise _bad(f"it has {len(notify.on)} events and {len(notify.to)} targets; give at most {MOST_TARGETS} targets")
    if not wanted & ~Wanted.TASKS:
        raise _bad("it names no event; write start, end, fail, timeout, requeue, idle or all")
    if is_array and not wanted & (Wanted.TASKS | OF_WHOLE_ARRAYS):
        raise _bad("an array as a whole has no timeout and no GPUs, and is not queued again; add tasks, fail or end")


def targets_of(notify: Notify, user: str, domain: str | None) -> list[Target]:
    """The targets, each once; without any, the mailbox of the job's user in the site's domain.

    Raises:
        Refused: ``bad_notify``: one is not a target.
    """
    try:
        return [parse_target(with_domain(text, domain)) for text in _texts(notify, user)]
    except BadTarget as error:
        raise _bad(str(error)) from None


def _texts(notify: Notify, user: str) -> list[str]:
    return list(dict.fromkeys(notify.to or [f"{MAIL}:{user}"]))


def _why(refused: Iterable[Target], settings: NotificationSettings) -> str:
    """Why these targets are refused, and what to do."""
    if not settings.allow:
        return NONE_ALLOWED
    names = _named(refused)
    return f"this site does not allow notifications to {names}; ask an administrator to add it to notifications.allow"


def _named(targets: Iterable[Target]) -> str:
    return ", ".join(f"'{cut(target.text)}'" for target in targets)


def _is_unreachable(target: Target, settings: NotificationSettings) -> bool:
    """Whether it is certain, without a lookup of its name, that nothing is sent to this host."""
    return target.scheme == WEB and target.host not in settings.private_hosts and is_known_private(target.host)


def _unreachable(target: Target) -> str:
    return (
        f"no notification will reach '{cut(target.text)}': {target.host} is an address of the notifier's machine or of"
        f" a private network; ask an administrator to add '{target.host}' to notifications.private_hosts"
    )


def _bad(why: str) -> Refused:
    return Refused("bad_notify", f"notify: {why}", FIELD)
