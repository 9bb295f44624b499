"""Every verb, with the forms of its requests and of its replies. Other languages get them as JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from rankd.core.model.job import JobRequest
from rankd.wire.answer import ClassName
from rankd.wire.configuration import Reload, Reloaded
from rankd.wire.dead_letter import DeadLetterFilter, DeadLetterSelection, LettersReply
from rankd.wire.delivery import AllocationMessage, ReportMessage, ReportsTaken, Take
from rankd.wire.device import DeviceReport, DeviceSelection
from rankd.wire.diag import Diag, DiagAsked
from rankd.wire.event import JobEventList
from rankd.wire.forecast_record import JobWhen
from rankd.wire.job_record import AccountingPage, JobHistory, JobPage, JobRecord, JobScript
from rankd.wire.job_selection import JobCancel, JobRetry, JobSelection, JobSignal, SelectionReply
from rankd.wire.job_update import JobUpdate
from rankd.wire.node import Heartbeat, NodeRegistered, NodeRegistration, NodeReply, NodeSelection
from rankd.wire.page import (
    AccountingFilter,
    EventsRequest,
    HistoryRequest,
    JobList,
    JobShow,
    PriorityList,
    TableFilter,
)
from rankd.wire.rank_record import PriorityPage, Why
from rankd.wire.report import ReportMade, ReportPart, ReportPartRequest, ReportRequest
from rankd.wire.schema_record import SchemaDocument, SchemaRequest
from rankd.wire.session import JobAttach, JobLog, Opened, SessionOpened
from rankd.wire.site import Site
from rankd.wire.stream import RebuildAsked, Rebuilt, StreamsAsked, StreamsChecked
from rankd.wire.submission import BatchReply, Jobs, Submitted, Tested
from rankd.wire.table_record import (
    ClassChange,
    ClassDeleted,
    ClassList,
    ClassRow,
    DevicePage,
    LetterPage,
    NodePage,
    Nothing,
    QueuePage,
    ServiceList,
    SharePage,
)
from rankd.wire.web import PageLook, PageLooked


class Form(NamedTuple):
    """The forms of a verb's requests and of its replies; one of each holds."""

    requests: tuple[Any, ...]
    replies: tuple[Any, ...]


def _form(request: Any, reply: Any) -> Form:  # noqa: ANN401 - types of any kind
    return Form((request,), (reply,))


_CHANGE = _form(JobSelection, SelectionReply)
_NODES = _form(NodeSelection, NodeReply)
_DEVICE = _form(DeviceSelection, NodeReply)
_CLASS = _form(ClassChange, ClassRow)
_LETTERS = _form(DeadLetterSelection, LettersReply)

VERBS: Mapping[str, Form] = {
    "job.submit": Form((JobRequest, Jobs), (Submitted, BatchReply)),
    "job.test": _form(JobRequest, Tested),
    "job.cancel": _form(JobCancel, SelectionReply),
    "job.hold": _CHANGE,
    "job.release": _CHANGE,
    "job.retry": _form(JobRetry, Submitted),
    "job.signal": _form(JobSignal, SelectionReply),
    "job.update": _form(JobUpdate, SelectionReply),
    "job.show": _form(JobShow, JobRecord),
    "job.script": _form(JobShow, JobScript),
    "job.attach": _form(JobAttach, SessionOpened),
    "job.log": _form(JobLog, SessionOpened),
    "job.why": _form(JobShow, Why),
    "job.when": _form(JobShow, JobWhen),
    "job.history": _form(HistoryRequest, JobHistory),
    "job.events": _form(EventsRequest, JobEventList),
    "job.list": _form(JobList, JobPage),
    "job.acct": _form(AccountingFilter, AccountingPage),
    "priority.list": _form(PriorityList, PriorityPage),
    "deadletter.list": _form(DeadLetterFilter, LetterPage),
    "deadletter.retry": _LETTERS,
    "deadletter.drop": _LETTERS,
    "report.make": _form(ReportRequest, ReportMade),
    "report.part": _form(ReportPartRequest, ReportPart),
    "page.look": _form(PageLook, PageLooked),
    "site.show": _form(Nothing, Site),
    "schema.show": _form(SchemaRequest, SchemaDocument),
    "node.list": _form(TableFilter, NodePage),
    "device.list": _form(TableFilter, DevicePage),
    "queue.list": _form(TableFilter, QueuePage),
    "share.list": _form(TableFilter, SharePage),
    "service.list": _form(Nothing, ServiceList),
    "diag.show": _form(DiagAsked, Diag),
    "class.list": _form(Nothing, ClassList),
    "class.show": _form(ClassName, ClassRow),
    "class.create": _CLASS,
    "class.update": _CLASS,
    "class.delete": _form(ClassName, ClassDeleted),
    "node.drain": _NODES,
    "node.resume": _NODES,
    "node.undrain": _NODES,
    "node.device_drain": _DEVICE,
    "node.device_resume": _DEVICE,
    "node.device_fail": _DEVICE,
    "config.reload": _form(Reload, Reloaded),
    "stream.check": _form(StreamsAsked, StreamsChecked),
    "stream.rebuild": _form(RebuildAsked, Rebuilt),
}
"""The verbs of users and administrators."""

NODE_VERBS: Mapping[str, Form] = {
    "node_register": _form(NodeRegistration, NodeRegistered),
    "node_heartbeat": _form(Heartbeat, NodeRegistered),
    "node_leave": _form(Heartbeat, NodeRegistered),
    "node_take": _form(Take, AllocationMessage),
    "node_report": _form(ReportMessage, ReportsTaken),
    "node_device": _form(DeviceReport, ReportsTaken),
    "node_opened": _form(Opened, ReportsTaken),
}
"""The requests of nodes' agents, by the names of their endpoints."""
