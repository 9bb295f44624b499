"""Every message by its name, for programs that use rankd's bus. The other modules of this package define them.

Requests of users refuse unknown fields. Messages between services ignore unknown fields.
"""

from __future__ import annotations

from rankd.core.model.report import Report
from rankd.core.notification.content import Content
from rankd.wire.answer import (
    ClassName,
    ErrorBody,
    Health,
)
from rankd.wire.dead_letter import (
    DeadLetter,
    DeadLetterFilter,
    DeadLetterSelection,
    LettersReply,
    SettledLetter,
)
from rankd.wire.delivery import (
    AllocationMessage,
    ReportMessage,
    ReportsTaken,
    StartJob,
    StartOrder,
    Take,
    Taken,
    Waits,
)
from rankd.wire.event import (
    AdapterEvent,
    Committed,
    FactorEvent,
    JobEventList,
    JobEvents,
    NodeChange,
    NodeEvents,
    QueueChange,
    QueueEvents,
    RankingEvent,
    SchedulerEvent,
    Transition,
    UserTransition,
)
from rankd.wire.job_selection import (
    AtLeastOne,
    Failed,
    JobCancel,
    JobFilter,
    JobRetry,
    JobSelection,
    SelectionReply,
)
from rankd.wire.node import (
    LONGEST_CONFINEMENT,
    LONGEST_UNABLE,
    Heartbeat,
    NodeFailed,
    NodeRegistered,
    NodeRegistration,
    NodeReply,
    NodeSelection,
)
from rankd.wire.page import (
    AccountingFilter,
    EventsRequest,
    HistoryRequest,
    JobList,
    JobShow,
    PriorityList,
    RankPlace,
    TableFilter,
)
from rankd.wire.submission import (
    MAX_JOBS_PER_MESSAGE,
    Accepted,
    BatchReply,
    JobBatch,
    Rejected,
)

__all__ = [
    "LONGEST_CONFINEMENT",
    "LONGEST_UNABLE",
    "MAX_JOBS_PER_MESSAGE",
    "Accepted",
    "AccountingFilter",
    "AdapterEvent",
    "AllocationMessage",
    "AtLeastOne",
    "BatchReply",
    "ClassName",
    "Committed",
    "Content",
    "DeadLetter",
    "DeadLetterFilter",
    "DeadLetterSelection",
    "ErrorBody",
    "EventsRequest",
    "FactorEvent",
    "Failed",
    "Health",
    "Heartbeat",
    "HistoryRequest",
    "JobBatch",
    "JobCancel",
    "JobEventList",
    "JobEvents",
    "JobFilter",
    "JobList",
    "JobRetry",
    "JobSelection",
    "JobShow",
    "LettersReply",
    "NodeChange",
    "NodeEvents",
    "NodeFailed",
    "NodeRegistered",
    "NodeRegistration",
    "NodeReply",
    "NodeSelection",
    "PriorityList",
    "QueueChange",
    "QueueEvents",
    "RankPlace",
    "RankingEvent",
    "Rejected",
    "Report",
    "ReportMessage",
    "ReportsTaken",
    "SchedulerEvent",
    "SelectionReply",
    "SettledLetter",
    "StartJob",
    "StartOrder",
    "TableFilter",
    "Take",
    "Taken",
    "Transition",
    "UserTransition",
    "Waits",
]
