"""``rankd submit --test-only``: asks rankd whether jobs would be accepted. Nothing is submitted."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from rankd.cli.common.channel import opened_until
from rankd.cli.common.duration import in_local_time
from rankd.cli.common.screen import print_line
from rankd.cli.jobs.delivery import REQUEST_TIMEOUT_S, encoded, report_refusals
from rankd.client.channel import repeated
from rankd.core.errors import Refused

if TYPE_CHECKING:
    import argparse

    from rankd.client.batch.request import Job
    from rankd.client.channel import Channel

Answer = dict[str, Any]


def try_out(jobs: list[Job], arguments: argparse.Namespace) -> int:
    """Ask about each job by itself, about equal ones once, and print the answers. Returns the exit status.

    Raises:
        Refused: the only job would be refused.
    """
    until = time.monotonic() + arguments.retry_for
    different = {json.dumps({**job, "key": None}, sort_keys=True): job for job in jobs}
    with opened_until(arguments, until) as channel:
        if len(jobs) == 1 or (len(different) == 1 and not arguments.json):
            _print(_asked(channel, jobs[0], until), arguments)
            return 0
        return _try_many(channel, jobs, arguments, until)


def _try_many(channel: Channel, jobs: list[Job], arguments: argparse.Namespace, until: float) -> int:
    from rankd.wire.submission import Rejected

    answers: list[Answer] = []
    rejected: list[Rejected] = []
    for place, job in enumerate(jobs):
        try:
            answers.append({"index": place, **_asked(channel, job, until)})
        except Refused as error:
            rejected.append(Rejected(index=place, code=error.code, message=error.message, field=error.field))
    if arguments.json:
        from rankd.cli.common.table import print_json

        print_json({"accepted": answers, "rejected": rejected})
    elif answers:
        print_line("1 job would be accepted" if len(answers) == 1 else f"{len(answers)} jobs would be accepted")
    report_refusals(rejected)
    return 1 if rejected else 0


def print_refusal(error: Refused) -> int:
    """Print as JSON that the only job would be refused, in the form of the answer about several jobs."""
    from rankd.cli.common.table import print_json
    from rankd.wire.submission import Rejected

    rejected = Rejected(index=0, code=error.code, message=error.message, field=error.field)
    print_json({"accepted": [], "rejected": [rejected]})
    return 1


def _asked(channel: Channel, job: Job, until: float) -> Answer:
    payload = encoded(job, channel)

    def send(left_s: float) -> Answer:
        return channel.request("job.test", payload, dict, timeout_s=min(REQUEST_TIMEOUT_S, left_s))

    return repeated(send, until)


def _print(answer: Answer, arguments: argparse.Namespace) -> None:
    if arguments.json:
        from rankd.cli.common.table import print_json

        print_json(answer)
        return
    for line in lines_of(answer):
        print_line(line)
    for line in (answer.get("warning") or "").splitlines():
        print_line(f"rankd: {line}", error=True)


def lines_of(answer: Answer) -> list[str]:
    """The answer in words.

    >>> lines_of({"user": "alice", "account": "physics", "queue": "root.a", "qos": "normal", "tasks": 4})
    ['The job would be accepted: user alice, account physics, queue root.a, QoS normal, 4 tasks']
    """
    words = [f"user {answer['user']}", f"account {answer['account']}", f"queue {answer['queue']}"]
    words.append(f"QoS {answer['qos']}")
    if answer.get("tasks") is not None:
        words.append(f"{answer['tasks']} tasks")
    waits = [f"It would wait: {one['reason']} ({in_local_time(one['reason_fact'])})" for one in answer.get("waits", ())]
    return [f"The job would be accepted: {', '.join(words)}", *waits]
