"""Admitting many jobs: jobs with the same names and amounts share the values resolved for the first of them.

Users submit the same job thousands of times, with another name or argument. Its account, queue, class and amounts stay
the same as long as the tables do, so they are resolved once.
"""

from __future__ import annotations

import msgspec

from rankd.core.admission.admit import AdmissionTables, admit, check_own, check_when
from rankd.core.admission.notify_check import decide_notify
from rankd.core.admission.submitter import Submitter
from rankd.core.model.job import AcceptedJob, JobRequest

MOST_KINDS = 4096
"""The most kinds of jobs in the cache. When it is full, it is emptied."""


class Admission:
    """Admission with fixed tables."""

    def __init__(self, tables: AdmissionTables) -> None:
        self.tables = tables
        self._known: dict[tuple[object, ...], AcceptedJob] = {}

    def admit(self, request: JobRequest, submitter: Submitter) -> AcceptedJob:
        """The result and the errors of :func:`rankd.core.admission.admit.admit`."""
        if request.array is not None:
            return admit(request, submitter, self.tables)
        kind = _kind(request, submitter)
        known = self._known.get(kind)
        if known is None:
            accepted = admit(request, submitter, self.tables)
            if not accepted.made:
                if len(self._known) >= MOST_KINDS:
                    self._known.clear()
                self._known[kind] = _without_own(accepted)
            return accepted
        check_own(request, self.tables.settings)
        check_when(request)
        remarks: tuple[str, ...] = ()
        if request.notify is not None:
            settings = self.tables.settings.notifications
            notify, remarks = decide_notify(request.notify, known.user, settings, is_array=False)
            request = msgspec.structs.replace(request, notify=notify)
        limit = known.request.time_limit_s
        if request.time_limit_s != limit:  # the configured one
            request = msgspec.structs.replace(request, time_limit_s=limit)
        return msgspec.structs.replace(known, request=request, remarks=remarks)


def _without_own(accepted: AcceptedJob) -> AcceptedJob:
    """The job without its command, environment and other texts, which take memory."""
    request = JobRequest(command=[], time_limit_s=accepted.request.time_limit_s)
    return msgspec.structs.replace(accepted, request=request, remarks=())


def _kind(request: JobRequest, submitter: Submitter) -> tuple[object, ...]:
    """All values that admission depends on, except those that are checked for every job."""
    return (
        submitter,
        request.user,
        request.account,
        request.queue,
        request.qos,
        request.partition,
        request.priority_class,
        request.priority,
        request.preemption_policy,
        request.urgency,
        request.held,
        request.nodes,
        request.min_nodes,
        tuple(request.resources.items()),
        request.constraints,
        request.exclusive,
        request.time_limit_s,
    )
