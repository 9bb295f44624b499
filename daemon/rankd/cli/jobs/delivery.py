"""Sends jobs in messages that fit the broker, repeats them while rankd is away, and waits for the jobs to end.

One job is encoded and its answer decoded by the standard library: importing msgspec and the messages of batches takes
longer than the rest of such a submission.
"""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any, TypeVar

from rankd.cli.common.channel import opened_until
from rankd.cli.common.output import telling
from rankd.cli.common.screen import print_line
from rankd.cli.jobs.delivered import Delivered
from rankd.client.channel import repeated
from rankd.core.errors import Refused, Unavailable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    import msgspec

    from rankd.bus.connection import Bus
    from rankd.client.asker import Asker
    from rankd.client.batch.request import Job
    from rankd.client.channel import Channel
    from rankd.client.place import Place
    from rankd.wire.job_record import JobRecord
    from rankd.wire.submission import Rejected

T = TypeVar("T")

ROOT_ANSWER_S = 2.0
REQUEST_TIMEOUT_S = 10.0
"""Without an answer for this long, the request is repeated. The key makes sure that it gives no second job."""


def deliver(jobs: list[Job], arguments: argparse.Namespace) -> int:
    """Submit, report, and wait if ``--wait`` is given. Returns the exit status."""
    until = time.monotonic() + arguments.retry_for
    with opened_until(arguments, until) as channel:
        outcome = submit(channel, jobs, arguments, until)
        with telling(accepted(outcome)):
            report(outcome, arguments)
            if not (arguments.json or arguments.parsable or arguments.file):
                ids, is_array = list(outcome.ids.values()), outcome.tasks is not None
                say_output(jobs[0], ids, lambda: _user(arguments), is_array=is_array)
        if arguments.forecast and outcome.ids:
            from rankd.cli.jobs.forecast import print_forecasts

            ids = list(outcome.ids.values())
            print_forecasts(channel, ids, as_json=arguments.json, aside=arguments.parsable)
        status = 1 if outcome.rejected else 0
        if arguments.wait and outcome.ids:
            return max(status, wait(channel, list(outcome.ids.values()), arguments.retry_for))
        return status


def enqueue(place: Place, who: Asker, jobs: list[Job], arguments: argparse.Namespace) -> int:
    """Store the jobs at the broker, and print their keys. Whether a job is accepted is reported as an event."""
    from functools import partial

    import msgspec

    from rankd.client.session import repeat, with_bus
    from rankd.client.submission import parts
    from rankd.wire.subject import enqueue_subject

    until = time.monotonic() + arguments.retry_for

    async def action(bus: Bus) -> None:
        if bus.role == "user":
            message = "only an administrator's programs may enqueue; submit without --enqueue"
            raise Refused("not_permitted", message, "enqueue", 403)
        await _check_root(bus, who.user, jobs[0])
        for first, payload in parts(jobs, bus.client.max_payload, atomic=arguments.atomic):

            async def send(message: msgspec.Raw, key: str) -> None:
                await bus.publish_durably(enqueue_subject(who.user), message, key)

            await repeat(partial(send, msgspec.Raw(payload), f"{jobs[first]['key']}"), until)

    with_bus(place, action, connect_timeout_s=arguments.retry_for)
    keys = [job["key"] for job in jobs]
    with telling(f"{len(jobs)} jobs were enqueued" if len(jobs) > 1 else f"a job with the key {keys[0]} was enqueued"):
        if arguments.json:
            _print_json({"enqueued": keys})
        else:
            print_line(f"Enqueued {len(jobs)} jobs" if len(jobs) > 1 else f"Enqueued a job with the key {keys[0]}")
    return 0


async def _check_root(bus: Bus, user: str, job: Job) -> None:
    """Ask whether a job of root would run at all: nobody vouches for the user of a message in the stream.

    Raises:
        Refused: it would end as a dead letter.
    """
    from rankd.wire.subject import user_request

    if user != "root":
        return
    try:
        payload = json.dumps(job, ensure_ascii=False).encode()
        await bus.request(user_request(user, "job.test"), payload, dict, timeout_s=ROOT_ANSWER_S)
    except Unavailable:
        return  # nobody can say now
    except Refused as error:
        if error.code in ("root_refused", "owner_only"):
            raise Refused(error.code, f"{error.message}; leave out --enqueue, too", error.field, error.status) from None


def submit(channel: Channel, jobs: list[Job], arguments: argparse.Namespace, until: float) -> Delivered:
    """Send all jobs and collect their numbers, until ``time.monotonic()`` shows ``until``.

    Raises:
        Refused: the only job is refused, or the jobs of ``--atomic`` don't fit into one message.
        Unavailable: rankd did not accept them in time.
    """
    if len(jobs) == 1:
        return _accepted_one(_sent(channel, encoded(jobs[0], channel), dict, until))
    return _submit_many(channel, jobs, arguments, until)


def encoded(job: Job, channel: Channel) -> bytes:
    """The job as JSON.

    Raises:
        Refused: ``too_large``: the channel does not take it.
    """
    payload = json.dumps(job, ensure_ascii=False, separators=(",", ":")).encode()
    if len(payload) > channel.largest:
        message = f"the job has {len(payload)} bytes as JSON, the broker accepts {channel.largest}; submit less text"
        raise Refused("too_large", message, "script", status=413)
    return payload


def _accepted_one(answer: dict[str, Any]) -> Delivered:
    """The number of the one job, and the number of its tasks if it is an array.

    Raises:
        Unavailable: ``unreadable_answer``.
    """
    id, tasks = answer.get("id"), answer.get("tasks")
    if type(id) is not int or type(tasks) not in (int, type(None)):
        raise Unavailable("unreadable_answer", "the answer to 'job.submit' has no number of a job")
    warning = answer.get("warning")
    return Delivered(ids={0: id}, rejected=[], tasks=tasks, warning=None if warning is None else str(warning))


def _submit_many(channel: Channel, jobs: list[Job], arguments: argparse.Namespace, until: float) -> Delivered:
    from rankd.client.blocking import carry_out
    from rankd.client.step import Effort
    from rankd.client.submission import submit_many

    effort = Effort(until - time.monotonic())
    reply = carry_out(submit_many(jobs, effort, atomic=arguments.atomic, until=until), channel)
    lines = dict.fromkeys(line for taken in reply.accepted for line in (taken.warning or "").splitlines())
    ids = {taken.index: taken.id for taken in reply.accepted}
    return Delivered(ids, reply.rejected, warning="\n".join(lines) or None)


def _sent(channel: Channel, payload: bytes, kind: type[T], until: float) -> T:
    def send(left_s: float) -> T:
        return channel.request("job.submit", payload, kind, timeout_s=min(REQUEST_TIMEOUT_S, left_s))

    return repeated(send, until)


def accepted(outcome: Delivered) -> str:
    """Which jobs were accepted, for the message about output that could not be written.

    >>> accepted(Delivered(ids={0: 17}, rejected=[]))
    'job 17 was accepted'
    """
    ids = list(outcome.ids.values())
    if len(ids) == 1:
        return f"job {ids[0]} was accepted"
    return f"{len(ids)} jobs were accepted: {shown_ids(ids)}" if ids else "no job was accepted"


def report(outcome: Delivered, arguments: argparse.Namespace) -> None:
    """Print the ids of the jobs. Refusals go to standard error."""
    ids = list(outcome.ids.values())
    if arguments.json:
        many = arguments.count > 1 or arguments.file
        _print_json({"ids": ids, "rejected": outcome.rejected} if many else _single(outcome))
    elif arguments.parsable:
        print("\n".join(map(str, ids)))
    elif len(ids) == 1:
        print_line(f"Submitted batch job {ids[0]}")
    elif ids:
        print_line(f"Submitted {len(ids)} batch jobs {shown_ids(ids)}")
    for line in (outcome.warning or "").splitlines():
        print_line(f"rankd: {line}", error=True)
    report_refusals(outcome.rejected)


def _print_json(value: object) -> None:
    from rankd.cli.common.table import print_json

    print_json(value)


def _single(outcome: Delivered) -> dict[str, int]:
    tasks = {} if outcome.tasks is None else {"tasks": outcome.tasks}
    return {"id": outcome.ids[0], **tasks}


def _user(arguments: argparse.Namespace) -> str:
    from rankd.cli.common.session import asker  # it imports msgspec, which most submissions do not need

    return asker(arguments).user


def say_output(job: Job, ids: list[int], user: Callable[[], str], *, is_array: bool = False) -> None:
    """Print on standard error where the output of a script goes. Standard output has the number alone.

    ``user`` returns the job's user. It is called if the name of a file has ``%u``.
    """
    if not ids or "script" not in job:
        return
    known = _known_letters(job, ids, user, is_array=is_array)
    out, err = (_file(job, job[name], known) for name in ("stdout", "stderr"))
    errors = "" if err == out else f", errors go to {err}"
    later = [f"%{letter}: {what}" for letter, what in _LATER.items() if re.search(f"%[0-9]*{letter}", out + err)]
    notes = f" ({', '.join(later)})" if later else ""
    print_line(f"rankd: output goes to {out}{errors}{notes}", error=True)
    if len(ids) > 1 and not re.search("%[0-9]*[jA]", job["stdout"]):
        print_line(f"rankd: {len(ids)} jobs write to the same file; put %j into its name", error=True)


_LATER = {"a": "the task's index", "n": "the first node"}
"""What letters in the name of a file stand for that are known later than at submission."""


def _known_letters(job: Job, ids: list[int], user: Callable[[], str], *, is_array: bool) -> dict[str, str]:
    """What is known at submission of the letters in the names of files. Each task of an array has its own ``%j``."""
    known = {"x": str(job.get("name") or job["command"][0]), "%": "%"}
    if re.search("%[0-9]*u", f"{job['stdout']} {job['stderr']}"):
        known["u"] = user()
    if not is_array:
        known["a"] = "0"
    if len(ids) == 1:
        known["A"] = str(ids[0])
        if not is_array:
            known["j"] = str(ids[0])
    return known


def _file(job: Job, pattern: str, known: dict[str, str]) -> str:
    """The path of an output file, as far as it is known."""
    path = pattern if pattern.startswith("/") else f"{job['cwd'].rstrip('/')}/{pattern}"

    def replaced(found: re.Match[str]) -> str:
        value = known.get(found[2])
        if value is None:
            return found[0]
        return value.zfill(min(int(found[1] or 0), 10)) if found[2] in "jAa" else value.replace("/", "_")

    return re.sub("%([0-9]{0,3})(.)", replaced, path)


def report_refusals(rejected: list[Rejected]) -> None:
    """Print one line on standard error per message, not per job: copies of a job fail for the same reason.

    A refused job has no id. Its place in the file, or among the copies, is counted from 1.
    """
    places: dict[str, list[int]] = {}
    for bad in rejected:
        places.setdefault(bad.message, []).append(bad.index)
    for message, which in places.items():
        places_from_1 = shown_ids([place + 1 for place in which])
        jobs = f"entry {places_from_1}" if len(which) == 1 else f"{len(which)} entries ({places_from_1})"
        print_line(f"rankd: {jobs} refused: {message}", error=True)


def shown_ids(ids: list[int]) -> str:
    """Ids as ranges.

    >>> shown_ids([3, 4, 5, 9])
    '3-5,9'
    """
    ranges: list[list[int]] = []
    for number in sorted(ids):
        if ranges and ranges[-1][-1] + 1 == number:
            ranges[-1][-1:] = [number] if len(ranges[-1]) > 1 else [ranges[-1][0], number]
        else:
            ranges.append([number])
    return ",".join("-".join(map(str, run)) for run in ranges)


def wait(channel: Channel, ids: list[int], retry_for: float) -> int:
    """Wait until all jobs have ended. Returns their largest exit status. Requests are repeated while rankd is away."""
    from rankd.client.blocking import carry_out
    from rankd.client.step import Effort
    from rankd.client.waiting import wait_for

    return max(map(status_of, carry_out(wait_for(ids, Effort(retry_for), gives_up=True), channel)))


def status_of(record: JobRecord) -> int:
    """The status that a shell would give: the exit status, 128 + signal, or 1 for any other end than success."""
    if record.state == "completed":
        return 0
    return 128 + record.signal if record.signal else record.exit_status or 1
