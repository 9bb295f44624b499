"""Which jobs of a document are accepted, and with which values. The rules are those of a submission.

Pending jobs are checked by all rules. Of running jobs, which were admitted before, only the names are resolved. Ended
jobs are not checked; they only matter for dependencies. A refused job has one refusal: its first fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from rankd.core.admission.admit import AdmissionTables, check_numbers, check_queue_maximum, check_urgency, resolve_queue
from rankd.core.admission.device_request import read_request
from rankd.core.admission.priority_class import ClassTable, Resolved, resolve
from rankd.core.admission.queue_entry import QueueEntry
from rankd.core.admission.rights import Named, Rights, check_rights
from rankd.core.admission.submitter import Submitter
from rankd.core.admission.user_limit import check_user_limits
from rankd.core.errors import Refused
from rankd.core.evaluate.accounts import DEFAULT_ACCOUNT, Accounts, Pair
from rankd.core.evaluate.document import Id, JobEntry
from rankd.core.evaluate.queue_catalogue import QueueCatalogue
from rankd.core.model.access import AccessLists
from rankd.core.model.array import ArrayRequest, parse_array
from rankd.core.model.device import with_sum
from rankd.core.model.job import ACTIVE_STATES, State
from rankd.core.model.priority_class import PREEMPT_LOWER_PRIORITY
from rankd.core.model.quantity import Resources, parse_resources
from rankd.core.model.setting import Qos, Settings
from rankd.core.placement.constraint import parse_constraints
from rankd.core.ranking.columns import NO_GROUP

NO_CLASS = Resolved(class_value=0, name=None, preemption_policy=PREEMPT_LOWER_PRIORITY)


class Rules(msgspec.Struct, frozen=True):
    """The rules for jobs. If ``default_qos`` is None, a job that names no QoS has none."""

    catalogue: QueueCatalogue
    classes: ClassTable
    accounts: Accounts
    qos: Mapping[str, int]
    default_qos: str | None
    tables: AdmissionTables

    @classmethod
    def of(
        cls,
        catalogue: QueueCatalogue,
        classes: ClassTable,
        accounts: Accounts,
        qos: Sequence[Qos],
        default_qos: str | None,
        lists: AccessLists,
    ) -> Rules:
        """The rules, with the tables that a submission uses."""
        tables = AdmissionTables(
            settings=_SETTINGS,
            classes=classes,
            partitions=catalogue.names,
            queues=catalogue.entries,
            associations=frozenset(),
            accounts=frozenset(),
            default_accounts={},
            rights=Rights.of(qos, lists, accounts.tree.user_indices),
        )
        places = {row.name: place for place, row in enumerate(qos)}
        return cls(catalogue, classes, accounts, places, default_qos if default_qos in places else None, tables)


_SETTINGS = Settings()


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job that was accepted. ``number`` is its sequence number; see :func:`sequence_numbers`.

    ``queue``, ``partition`` and ``qos`` are indices. ``resources`` are internal amounts per node. ``array``: the
    tasks of a pending array.
    """

    entry: JobEntry
    number: int
    queue: int
    partition: int
    pair: Pair | None
    qos: int
    resolved: Resolved
    resources: Resources
    array: ArrayRequest | None = None

    @property
    def min_nodes(self) -> int:
        """The smallest number of nodes that the job may start with."""
        return self.entry.nodes if self.entry.min_nodes is None else self.entry.min_nodes


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """A job that was refused."""

    job: Id
    code: str
    message: str
    field: str | None


class Admitted(msgspec.Struct, frozen=True):
    """The pending, running and refused jobs. Each list is in the document's order."""

    pending: list[Job]
    active: list[Job]
    rejected: list[Rejection]


def admit_jobs(entries: Sequence[JobEntry], rules: Rules) -> Admitted:
    """Admit all jobs that the rules allow. A refused job does not affect other jobs."""
    admitted = Admitted([], [], [])
    for number, entry in zip(sequence_numbers(entries), entries, strict=True):
        if entry.state is not State.PENDING and entry.state not in ACTIVE_STATES:
            continue
        try:
            job = _pending(entry, number, rules) if entry.state is State.PENDING else _active(entry, number, rules)
        except Refused as error:
            admitted.rejected.append(Rejection(job=entry.id, code=error.code, message=error.message, field=error.field))
        else:
            (admitted.pending if entry.state is State.PENDING else admitted.active).append(job)
    return admitted


def sequence_numbers(entries: Iterable[JobEntry]) -> Iterator[int]:
    """The sequence number of each job: its own if it gives one, else one more than the job before. The first is 1."""
    number = 0
    for entry in entries:
        number = number + 1 if entry.sequence is None else entry.sequence
        yield number


def _pending(entry: JobEntry, number: int, rules: Rules) -> Job:
    check_numbers(entry)
    pair = rules.accounts.resolve(entry.account, entry.user)
    resources = read_request(entry.resources)
    queue = resolve_queue(entry, rules.tables)
    check_queue_maximum(entry, resources, queue)
    if entry.user is not None and entry.class_value is None:  # others were accepted before, perhaps under other limits
        check_user_limits(entry, resources, queue, entry.user, entry.groups)
    parse_constraints(entry.constraints)
    resolved = _resolved(entry, rules)
    qos = _qos(entry, rules)
    if _asks(entry):
        account = pair[0] if pair else entry.account or DEFAULT_ACCOUNT
        named = Named(entry.user or "", entry.groups, queue, entry.qos or rules.default_qos, resolved.name, account)
        check_rights(named, rules.tables.rights)
    check_urgency(entry.urgency, Submitter(entry.user or "", entry.privileged))
    job = _job(entry, number, rules, queue, pair, qos, resolved, resources)
    return job if entry.array is None else msgspec.structs.replace(job, array=parse_array(entry.array))


def _asks(entry: JobEntry) -> bool:
    """Whether access lists apply to the job.

    They do not apply if the job is privileged, was accepted before (its class is resolved), or names no user.
    """
    return entry.user is not None and entry.class_value is None and not entry.privileged


def _active(entry: JobEntry, number: int, rules: Rules) -> Job:
    pair = rules.accounts.resolve(entry.account, entry.user)
    queue = resolve_queue(entry, rules.tables)
    return _job(
        entry, number, rules, queue, pair, _qos(entry, rules), NO_CLASS, with_sum(parse_resources(entry.resources))
    )


def _job(
    entry: JobEntry,
    number: int,
    rules: Rules,
    queue: QueueEntry,
    pair: Pair | None,
    qos: int,
    resolved: Resolved,
    resources: Resources,
) -> Job:
    id_ = rules.catalogue.id_of(queue)
    return Job(
        entry=entry,
        number=number,
        queue=id_,
        partition=rules.catalogue.places[id_],
        pair=pair,
        qos=qos,
        resolved=resolved,
        resources=resources,
    )


def _resolved(entry: JobEntry, rules: Rules) -> Resolved:
    """The job's class: the one that was resolved before, if the job gives it; else resolved now."""
    if entry.class_value is None:
        return resolve(rules.classes, entry.priority_class, entry.priority, entry.preemption_policy, entry.privileged)
    return Resolved(
        class_value=entry.class_value,
        name=entry.priority_class or None,
        preemption_policy=entry.preemption_policy or PREEMPT_LOWER_PRIORITY,
    )


def _qos(entry: JobEntry, rules: Rules) -> int:
    wanted = entry.qos or rules.default_qos
    if wanted is None:
        return NO_GROUP
    if wanted not in rules.qos:
        raise Refused("unknown_qos", f"unknown QoS '{wanted}'; known: {', '.join(rules.qos)}", "qos")
    return rules.qos[wanted]
