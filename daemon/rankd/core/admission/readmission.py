"""Admitting a pending job again with some other fields, by the rules of a submission.

A field that is given is checked again. A field that is not given keeps its value, even if the rules would not allow it
any more. Examples: an urgency set by an administrator, the class from submission, a queue now closed to the user.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rankd.core.admission.admit import AdmissionTables, admit, check_own, check_when, resolve_queue
from rankd.core.admission.fit import check_fit, shape_of
from rankd.core.admission.limit import OWN_TEXTS
from rankd.core.admission.priority_class import Resolved, resolve
from rankd.core.admission.rights import FIELDS, Named, check_rights
from rankd.core.admission.submitter import Submitter
from rankd.core.model.device import GPU, is_device_kind
from rankd.core.model.job import AcceptedJob, JobRequest
from rankd.core.model.quantity import Amount

CLASS_FIELDS = frozenset({"priority_class", "priority", "preemption_policy"})
SHAPE_FIELDS = frozenset({"partition", "queue", "nodes", "min_nodes", "resources", "constraints", "exclusive"})
_WHERE = frozenset({"queue", "partition"})
_OWN = frozenset({*OWN_TEXTS, "time_limit_s", "begin_at", "depends_on", "cancel_if_unmet"})
_BARE = JobRequest(command=["true"])


class AdmittedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A pending job after its admission or its last change. ``request`` has the resolved names and changed values."""

    user: str
    resolved: Resolved
    request: JobRequest


def readmit(
    admitted: AdmittedJob, given: Mapping[str, object], asker: Submitter, tables: AdmissionTables
) -> tuple[AcceptedJob, Resolved]:
    """The job with the ``given`` fields of its request, and its class.

    A new class is resolved as in a submission by ``asker``. All other fields must be allowed for the job's user. But an
    administrator may give a job any queue, QoS, class and account that has an access list, and any urgency.

    Raises:
        Refused: as :func:`rankd.core.admission.admit.admit`.
    """
    request = msgspec.structs.replace(changed(admitted.request, given), array=None)
    resolved = admitted.resolved
    if not CLASS_FIELDS.isdisjoint(given):
        named = (request.priority_class, request.priority, request.preemption_policy)
        resolved = resolve(tables.classes, *named, asker.privileged)
    _check_given(request, given, tables)
    submitter = Submitter(admitted.user, asker.privileged or "urgency" not in given)
    accepted = admit(request, submitter, tables, resolved, keeps_shape=SHAPE_FIELDS.isdisjoint(given))
    if not asker.privileged:
        _check_access(accepted, request, given, tables)
    if tables.nodes is not None and not SHAPE_FIELDS.isdisjoint(given):
        check_fit(shape_of(accepted), tables.nodes, accepted.bounds)
    whole = msgspec.structs.replace(accepted.request, array=admitted.request.array)
    if "time_limit_s" not in given:  # a job without one is not given the usual one because of another field
        whole = msgspec.structs.replace(whole, time_limit_s=admitted.request.time_limit_s)
    return msgspec.structs.replace(accepted, request=whole), resolved


def _check_access(
    accepted: AcceptedJob, request: JobRequest, given: Mapping[str, object], tables: AdmissionTables
) -> None:
    """Check that the job's user may use what is given. What stays as it is may be closed to the user by now."""
    fields = [field for field in FIELDS if field in given or (field == "queue" and not _WHERE.isdisjoint(given))]
    if fields:
        queue, groups = resolve_queue(request, tables), accepted.groups
        named = Named(accepted.user, groups, queue, accepted.qos, accepted.priority_class, accepted.account)
        check_rights(named, tables.rights, fields)


def _check_given(request: JobRequest, given: Mapping[str, object], tables: AdmissionTables) -> None:
    """Check the given texts and times of the job. The others were admitted before, perhaps under other limits."""
    own = msgspec.structs.replace(_BARE, **{name: getattr(request, name) for name in _OWN & given.keys()})
    check_own(own, tables.settings)
    check_when(own)


def changed(request: JobRequest, given: Mapping[str, object]) -> JobRequest:
    """The request with these fields. Resource types that are not given keep their amounts.

    Amounts of devices, and null for ``gpu``, replace all that the job asked of devices. Null for a model removes it.
    A new class without a ``priority`` or ``preemption_policy`` removes the old ones.
    """
    fields = dict(given)
    amounts = fields.get("resources")
    if isinstance(amounts, Mapping):
        merged = {**_kept(request.resources, amounts), **amounts}
        fields["resources"] = {kind: amount for kind, amount in merged.items() if amount is not None}
    if "priority_class" in fields:
        fields = {"priority": None, "preemption_policy": None, **fields}
    return msgspec.structs.replace(request, **fields)


def _kept(before: Mapping[str, Amount], amounts: Mapping[str, object]) -> dict[str, Amount]:
    """The amounts of a request that an update leaves. The names of devices that it gives replace all of the request."""
    is_replaced = any(is_device_kind(kind) and (kind == GPU or amount is not None) for kind, amount in amounts.items())
    return {kind: amount for kind, amount in before.items() if not (is_replaced and is_device_kind(kind))}
