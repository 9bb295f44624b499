"""What reads input from outside: each with how its inputs are made, and the errors that it may raise."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
from builder import admission_tables
from fuzz import device_target
from fuzz.hostile import Hostile
from nats.aio.msg import Msg
from simulated import PART

import rankd.wire.message as messages
from rankd.bus.refusal import raise_if_refused
from rankd.client.instant import parse_time
from rankd.config.accounts import read_accounts
from rankd.config.configuration import read_configuration
from rankd.config.difference import differences
from rankd.config.plugin import factor_names
from rankd.config.priority_classes import read_classes_and_access
from rankd.config.queues import read_queues
from rankd.config.settings import read_settings
from rankd.core.adapter.text import rows_of_text
from rankd.core.admission.acl import parse_acl
from rankd.core.admission.admission_cache import Admission
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import ConfigurationError, RankdError
from rankd.core.model.job import JobRequest
from rankd.core.model.quantity import parse_amount
from rankd.core.model.service_setting import NotificationSettings
from rankd.core.model.setting import Settings
from rankd.core.notification.allow_list import is_allowed, pattern_problem
from rankd.core.notification.content import Content
from rankd.core.notification.target import BadTarget, parse_target, with_domain
from rankd.core.placement.constraint import parse_constraints
from rankd.core.printable import printable
from rankd.core.simulate.sacct import read_sacct
from rankd.core.simulate.swf import read_swf
from rankd.core.simulate.trace import Selection, over, select
from rankd.core.slurm.conversion import SourceText, convert_slurm
from rankd.core.slurm.writing import write_files
from rankd.identity.credentials import parse_credentials
from rankd.identity.key import answer
from rankd.identity.site import Role, Site, read_site
from rankd.identity.token import read_claims
from rankd.services.intake.stream_end import _last_of
from rankd.services.intake.submission import read_submission
from rankd.services.keeper.message import read_ask, read_tell
from rankd.services.notifier.event_reader import _decode as decode_marks
from rankd.services.notifier.mail import message_of
from rankd.services.notifier.web import request as post_of
from rankd.services.runtime.login_socket import _read_line
from rankd.store.record.dead_letter import _stored, preview
from rankd.wire.codec import UNREADABLE, decode_of_node, decode_strict
from rankd.wire.configuration import Reload
from rankd.wire.device import DeviceReport
from rankd.wire.diag import DiagRequest
from rankd.wire.event import Committed
from rankd.wire.job_update import JobUpdate
from rankd.wire.login import Login, LoginRequest
from rankd.wire.report import ReportPartRequest, ReportRequest
from rankd.wire.session import Grant, JobLog, Opened
from rankd.wire.subject import (
    asker_of,
    decode_name,
    encode_name,
    enqueuer_of,
    inbox_allowed,
    inbox_prefix,
    node_of,
    sender_in,
)

ROOT = Path(__file__).parents[2]
OF_REQUESTS = (RankdError, *UNREADABLE)
"""What the endpoints turn into an answer, and the reader of the submissions' stream into a dead letter."""
OF_FILES = (ConfigurationError,)
SACCT = b"JobID|Submit|Elapsed|Timelimit|NCPUS|User\n" + b"17|2026-05-01T12:00:00|1-02:03:04|UNLIMITED|4|ada\n" * 9

USER_KINDS = (
    messages.AccountingFilter, messages.ClassName, messages.DeadLetterFilter, messages.DeadLetterSelection,
    messages.EventsRequest, messages.HistoryRequest, messages.JobList, messages.JobRetry, messages.JobSelection,
    messages.JobShow,
    messages.NodeSelection, messages.PriorityList, messages.TableFilter, JobUpdate, ReportRequest, ReportPartRequest,
    Reload, DiagRequest, LoginRequest, JobLog,
)  # fmt: skip
NODE_KINDS = (
    messages.NodeRegistration,
    messages.Heartbeat,
    messages.Take,
    messages.ReportMessage,
    DeviceReport,
    Opened,
)
EVENT_KINDS = (
    messages.JobEvents, messages.NodeEvents, messages.QueueEvents, messages.RankingEvent, messages.SchedulerEvent,
    messages.FactorEvent, messages.AdapterEvent, messages.DeadLetter, messages.Taken, messages.NodeRegistered,
    messages.Health, messages.JobEventList, messages.ErrorBody, Committed, Login, Grant,
)  # fmt: skip
GOOD: dict[str, object] = {
    "command": ["true"], "id": 1, "ids": [1], "jobs": [{"command": ["true"]}], "resources": {"vcore": 1}, "agent": "n1",
    "nodes": [], "reports": [{"allocation": 1, "job": 1, "kind": "started", "at": 1.0}], "events": [], "node": "n1",
    "notify": {"on": ["end"], "to": ["mailto:a@example.org"]},
    "name": "a", "kind": "gap", "job": 1, "report": "r", "generation": 1, "at": 1.0, "want": "credentials",
    "session": "a" * 16, "stream": "stdout", "follow": True, "user": "a",
}  # fmt: skip


class Target(NamedTuple):
    """``make`` draws an input; ``read`` reads it; ``may_raise``: anything else is a bug. ``weight``: its share."""

    make: Callable[[Hostile], object]
    read: Callable[[object], object]
    may_raise: tuple[type[BaseException], ...]
    weight: int = 10


def json_blocks() -> list[bytes]:
    """The examples of messages in the reference."""
    return blocks_in("docs/reference/bus.md", "json")


def blocks_in(page: str, language: str) -> list[bytes]:
    """The code blocks of a page of the documentation."""
    text = (ROOT / page).read_text()
    return [block.encode() for block in re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)]


def fields_of(kind: type[msgspec.Struct]) -> list[str]:
    return list(kind.__struct_fields__)


def message(kinds: tuple[type[msgspec.Struct], ...], hostile: Hostile) -> tuple[type[msgspec.Struct], bytes]:
    """A kind of message, and a payload for it."""
    kind = hostile.chance.choice(kinds)
    if hostile.chance.random() < 0.05:
        return kind, hostile.noise()
    if hostile.chance.random() < 0.2:
        return kind, hostile.damaged(hostile.chance.choice(BLOCKS), hostile.chance.choice(BLOCKS))
    names = fields_of(kind)
    return kind, hostile.document(names, {name: GOOD[name] for name in names if name in GOOD})


def submission(hostile: Hostile) -> tuple[bytes, str | None, bool]:
    """A job or a batch, a message id, and whether an administrator sends it."""
    chance, names = hostile.chance, fields_of(JobRequest)
    jobs = [hostile.document(names, {"command": ["true"]}) for _ in range(chance.choice((1, 1, 1, 3)))]
    payload = jobs[0] if len(jobs) == 1 else b'{"jobs":[' + b",".join(jobs) + b"]}"
    return payload, hostile.text() if chance.random() < 0.2 else None, chance.random() < 0.3


def document_of(seeds: list[bytes]) -> Callable[[Hostile], str]:
    """Damaged texts of files; what is not UTF-8 is refused before they are read."""

    def make(hostile: Hostile) -> str:
        seed, other = hostile.chance.choice(seeds), hostile.chance.choice(seeds)
        return hostile.damaged(seed, other).decode(errors="replace")

    return make


def texts(hostile: Hostile) -> str:
    """A short text of a user's."""
    return hostile.damaged(hostile.text().encode()).decode(errors="replace")


def subject(hostile: Hostile) -> tuple[str, str]:
    """A subject on which a request arrives, and its reply subject."""
    role = hostile.chance.choice(("user", "admin", "gateway", "node", "enqueue"))
    rest = {"enqueue": "", "node": ".report", "gateway": f".{hostile.token()}.job.submit"}.get(role, ".job.submit")
    reply = hostile.chance.choice(("_INBOX.", "_INBOX.alice.", "_R_.", "rankd.v1.", "$JS.API.", "")) + hostile.token()
    return f"rankd.v1.{role}.{hostile.token()}{rest}", reply


def read_subject(given: object) -> None:
    where, reply = given
    role = where.split(".")[2]
    sender_in(where)
    inbox_allowed(reply)
    try:
        name = {"node": node_of, "enqueue": enqueuer_of}.get(role, lambda found: asker_of(found).user)(where)
    except ValueError:
        return
    assert decode_name(encode_name(name)) == name
    inbox_allowed(reply, inbox_prefix(name))
    assert f".{encode_name(name)}" in where, "a name has one token only"


def read_request(given: object) -> None:
    kind, payload = given
    decode_strict(payload, kind)


def read_of_node(given: object) -> None:
    kind, payload = given
    decode_of_node(payload, kind)


def read_toml(given: object) -> None:
    read_settings(given, FACTORS)


def read_submitted(given: object) -> None:
    payload, message_id, privileged = given
    read_submission(payload, Submitter("alice", privileged=privileged), ADMISSION, message_id)


def read_event(given: object) -> None:
    kind, payload = given
    msgspec.json.decode(payload, type=kind)
    if kind in (messages.JobEvents, messages.NodeEvents, messages.QueueEvents):
        _last_of(payload, kind)


def read_answer(given: object) -> None:
    headers, payload = given
    raise_if_refused(Msg(_client=None, subject="_INBOX.x", data=payload, headers=headers))


def an_answer(hostile: Hostile) -> tuple[dict[str, str] | None, bytes]:
    headers = {"Nats-Service-Error-Code": hostile.chance.choice(("429", "503", "400", hostile.text()))}
    return hostile.chance.choice((None, headers)), message((messages.ErrorBody,), hostile)[1]


def read_all_files(given: object) -> None:
    read_configuration("/config", given)


def all_files(hostile: Hostile) -> Mapping[str, str]:
    files = dict(FILES)
    name = hostile.chance.choice(list(files))
    files[name] = hostile.damaged(files[name].encode(), b"\n".join(file.encode() for file in files.values())).decode(
        errors="replace"
    )
    return files


def read_trace(given: object) -> None:
    text = given if isinstance(given, bytes) else str(given).encode(errors="replace")
    select(read_swf(text.splitlines()), Selection(), over(338))


def read_sacct_trace(given: object) -> None:
    text = given if isinstance(given, bytes) else str(given).encode(errors="replace")
    select(read_sacct(text.splitlines()), Selection(), over(338))


def read_slurm(given: object) -> None:
    write_files(convert_slurm([SourceText(name="dump", text=given, at=1.0)]))


def a_token(hostile: Hostile) -> str:
    if hostile.chance.random() < 0.5:
        good = {"name": "a", "sub": "U", "nats": {"tags": []}}
        content = hostile.document(["name", "sub", "nats", "exp", "iat"], good)
        return ".".join(("e30", base64.urlsafe_b64encode(content).decode().rstrip("="), "x"))
    return hostile.damaged(CREDENTIALS.token.encode()).decode(errors="replace")


def some_credentials(hostile: Hostile) -> str:
    return hostile.damaged(CREDENTIALS.text().encode()).decode(errors="replace")


def use_credentials(given: object) -> None:
    answer(parse_credentials(given).seed, "nonce")


def site_files(hostile: Hostile) -> tuple[bytes, bytes]:
    good = b'{"user alice":{"at":1,"is_barred":true}}'
    key = b"ab" * 32
    if hostile.chance.random() < 0.5:
        return hostile.damaged(key), good
    return key, hostile.damaged(good)


def read_site_files(directory: Path, given: object) -> None:
    key, revoked = given
    (directory / "site.key").write_bytes(key)
    (directory / "revoked.json").write_bytes(revoked)
    read_site(directory)


def login_line(hostile: Hostile) -> bytes:
    chance = hostile.chance
    good = b'{"want":"answer","verb":"job.submit","size":2,"key":"k"}\n{}'
    if chance.random() < 0.3:
        return hostile.document(["want", "verb", "size", "key"], {"want": "answer"}) + b"\n"
    return hostile.damaged(good)


def read_login(loop: asyncio.AbstractEventLoop, given: object) -> None:
    async def read() -> None:
        reader = asyncio.StreamReader(limit=2**16, loop=loop)
        reader.feed_data(given)
        reader.feed_eof()
        await _read_line(reader)

    loop.run_until_complete(read())


def keep_letter(given: object) -> None:
    _stored(given)
    preview(given)


def show(given: object) -> None:
    shown = printable(given)
    assert printable(shown) == shown, "what is shown has no control character"


def read_words(given: object) -> None:
    """Texts in fields that have a grammar of their own; each one raises for itself."""
    for read in (parse_constraints, parse_acl, partial(parse_amount, "vcore"), partial(parse_amount, "memory")):
        try:
            read(given)
        except (RankdError, ValueError):
            continue


def read_time(given: object) -> None:
    parse_time(given, 1_700_000_000.0, "past")


def read_rows(given: object) -> None:
    form, text = given
    rows_of_text(text, form, "associations")


def some_rows(hostile: Hostile) -> tuple[str, str]:
    good = b"account,user,shares\nphysics,alice,1\n"
    document = b'[{"account":"physics","user":"alice","shares":1}]'
    form = hostile.chance.choice(("csv", "json"))
    return form, hostile.damaged(good if form == "csv" else document).decode(errors="replace")


def keeper_line(hostile: Hostile) -> bytes:
    return hostile.document(["type", "allocation", "job", "command", "env"], {"type": "keep"})


def read_keeper_line(given: object) -> None:
    for read in (read_ask, read_tell):
        try:
            read(given)
        except UNREADABLE:
            continue


def a_target(hostile: Hostile) -> str:
    good = hostile.chance.choice(
        (b"https://hooks.example.org:8443/a/b?c=d", b"mailto:alice@example.org", b"mailto:alice", b"slack://a/b")
    )
    return hostile.damaged(good, hostile.text().encode()).decode(errors="replace")


def read_target(given: object) -> None:
    """A target that is accepted is sent to as one request line, one host and one address."""
    target = parse_target(with_domain(given, "example.org"))
    is_allowed(target, ["mailto:*@example.org", "https://*.example.org:*/*", "slack://*"])
    assert pattern_problem(given) is None or isinstance(pattern_problem(given), str)
    if target.scheme == "mailto":
        assert target.address.isascii()
        assert target.address.count("@") == 1
    elif target.scheme == "https":
        head = post_of(target, b"", {}).partition(b"\r\n\r\n")[0].split(b"\r\n")
        assert [line.split(b" ")[0] for line in head][:2] == [b"POST", b"Host:"]
        assert len(head) == len(HEAD)


def write_mail(given: object) -> None:
    content = Content(id=1, event="end", job=1, state="failed", at=0.0, user="alice", name=given, queue=given)
    mail = message_of(content, 0, "alice@example.org", NotificationSettings(mail_domain="example.org"))
    head = mail.as_bytes().partition(b"\n\n")[0]
    assert {line.split(b":")[0] for line in head.split(b"\n") if line[:1] not in b" \t"} <= MAIL_FIELDS, head


def read_marks(given: object) -> None:
    decode_marks(given[1])


HEAD = post_of(parse_target("https://example.org/"), b"", {}).partition(b"\r\n\r\n")[0].split(b"\r\n")
MAIL_FIELDS = {
    b"From", b"To", b"Subject", b"Date", b"Message-ID", b"Auto-Submitted", b"Rankd-Event-Id", b"Content-Type",
    b"Content-Transfer-Encoding", b"MIME-Version",
}  # fmt: skip
BLOCKS = json_blocks()
FILES = {
    name: (ROOT / "config" / name).read_text()
    for name in ("rankd.toml", "queues.yaml", "accounts.yaml", "priorityclasses.yaml")
    if (ROOT / "config" / name).exists()
}
ADMISSION = Admission(
    admission_tables(settings=Settings(notifications=NotificationSettings(allow=["mailto:*@example.org"])))
)
CREDENTIALS = Site(bytes(32)).credentials(Role.USER, "alice", 1_700_000_000.0)
BOMB = b"a: &a [x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b]\npartitions: [*c,*c,*c]\n"
"""References to references: a small text that a reader may take for a large one."""


def targets(directory: Path, loop: asyncio.AbstractEventLoop) -> dict[str, Target]:
    """All targets by name. ``directory`` is for files, ``loop`` for what is read from a socket."""
    toml, yaml, classes = ([FILES[name].encode()] for name in ("rankd.toml", "queues.yaml", "priorityclasses.yaml"))
    slurm = blocks_in("docs/how-to/slurm.md", "text")
    found = {
        "requests of users": (partial(message, USER_KINDS), read_request, OF_REQUESTS, 200),
        "messages of nodes": (partial(message, NODE_KINDS), read_of_node, OF_REQUESTS, 100),
        "submissions": (submission, read_submitted, OF_REQUESTS, 200),
        "events and answers": (partial(message, EVENT_KINDS), read_event, UNREADABLE, 100),
        "errors in answers": (an_answer, read_answer, OF_REQUESTS, 30),
        "dead letters": (lambda hostile: submission(hostile)[0], keep_letter, (), 30),
        "subjects": (subject, read_subject, (), 100),
        "tokens": (a_token, read_claims, (ValueError,), 60),
        "credentials": (some_credentials, use_credentials, (ValueError,), 30),
        "files of a site": (site_files, partial(read_site_files, directory), (RankdError,), 5),
        "lines of a login": (login_line, partial(read_login, loop), (RankdError,), 20),
        "lines of a keeper": (keeper_line, read_keeper_line, (), 20),
        "rankd.toml": (document_of(toml), read_toml, OF_FILES, 10),
        "queues.yaml": (document_of([*yaml, BOMB]), read_queues, OF_FILES, 4),
        "accounts.yaml": (document_of([FILES["accounts.yaml"].encode(), BOMB]), read_accounts, OF_FILES, 6),
        "priorityclasses.yaml": (document_of([*classes, BOMB]), read_classes_and_access, OF_FILES, 6),
        "all files": (all_files, read_all_files, OF_FILES, 1),
        "changes of files": (all_files, partial(differences, FILES), (), 1),
        "Slurm's files": (document_of(slurm), read_slurm, OF_FILES, 20),
        "traces of sacct": (document_of([SACCT]), read_sacct_trace, (RankdError,), 10),
        "traces": (document_of([PART.read_bytes()[-4000:]]), read_trace, (RankdError,), 10),
        "rows of adapters": (some_rows, read_rows, (RankdError, ValueError), 20),
        "texts": (texts, show, (), 60),
        "texts with a grammar": (texts, read_words, (), 60),
        "targets of notifications": (a_target, read_target, (BadTarget,), 60),
        "mails of notifications": (texts, write_mail, (), 30),
        "marks of events": (partial(message, (messages.JobEvents,)), read_marks, UNREADABLE, 20),
        "times": (texts, read_time, (RankdError,), 30),
        "files of devices": (
            device_target.a_file, partial(device_target.read_devices, directory), (RankdError,), 10,
        ),
        "options of devices": (device_target.a_spec, device_target.read_spec, (ValueError,), 10),
        "reports of devices": (device_target.a_report, device_target.read_report, OF_REQUESTS, 40),
        "states with devices": (device_target.a_state, device_target.decide, OF_FILES, 6),
    }  # fmt: skip
    return {name: Target(*parts) for name, parts in found.items()}


FACTORS = factor_names()
