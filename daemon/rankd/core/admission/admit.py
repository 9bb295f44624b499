"""Whether a job may be accepted, and with which names and amounts.

Every name is resolved here, once, at submission. After that only the values of the `AcceptedJob` count. The check
stops at the first fault. The error has its code, the field, and what to do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from rankd.core.admission.amount import asked_amounts
from rankd.core.admission.dependency import check_form
from rankd.core.admission.device_request import read_request
from rankd.core.admission.fit import check_fit
from rankd.core.admission.interactive_check import check_interactive
from rankd.core.admission.limit import (
    LATEST_AT,
    LOOKED_UP_TEXTS,
    MAX_COMMAND_WORDS,
    MAX_DEPENDENCIES,
    MAX_NAME,
    MAX_NODES,
    MAX_TIME_LIMIT_S,
    SURELY_SHORT,
    check_command,
    check_count,
    check_environment,
    check_own_texts,
    check_texts,
    is_plain,
)
from rankd.core.admission.notify_check import decide_notify
from rankd.core.admission.path_limit import MAX_PATH_DEPTH, check_paths
from rankd.core.admission.permission import NewJob, check, may
from rankd.core.admission.priority_class import ClassTable, Resolved, resolve
from rankd.core.admission.queue_entry import QueueEntry, check_depth, find_queue, made_queue
from rankd.core.admission.rights import Named, Rights, check_rights
from rankd.core.admission.script_check import check_script
from rankd.core.admission.submitter import Submitter
from rankd.core.admission.user_limit import bounds_of, check_user_limits
from rankd.core.errors import Refused
from rankd.core.instant import shown_length
from rankd.core.model.amount_text import compared
from rankd.core.model.array import ArrayRequest, parse_array
from rankd.core.model.job import URGENCY_DEFAULT, URGENCY_EXPEDITE, URGENCY_HOLD, AcceptedJob, JobRequest
from rankd.core.model.node import Node
from rankd.core.model.quantity import VCORE, Resources
from rankd.core.model.queue import DEFAULT_QUEUE, ROOT_QUEUE
from rankd.core.model.setting import Settings
from rankd.core.near_name import MOST_COMPARED, cut, unknown
from rankd.core.placement.constraint import check_constraints
from rankd.core.placement.request import Shape


class AdmissionTables(msgspec.Struct, frozen=True, kw_only=True):
    """The tables that submissions are checked against. Keys of ``queues`` are (partition, path in lower case).

    ``removed``: the keys of queues that were removed. ``groups``: the groups of each user. ``nodes``: the present nodes
    if ``admission.refuse_unfit`` is on, else None. ``resource_types``: the types that jobs may ask for; None means any.
    ``rights``: the access lists of QoS, classes and accounts.
    """

    settings: Settings
    classes: ClassTable
    partitions: tuple[str, ...]
    queues: Mapping[tuple[str, str], QueueEntry]
    associations: frozenset[tuple[str, str]]
    accounts: frozenset[str]
    default_accounts: Mapping[str, str]
    removed: frozenset[tuple[str, str]] = frozenset()
    groups: Mapping[str, tuple[str, ...]] = {}
    nodes: tuple[Node, ...] | None = None
    resource_types: frozenset[str] | None = None
    rights: Rights = Rights()


def admit(
    request: JobRequest,
    submitter: Submitter,
    tables: AdmissionTables,
    resolved: Resolved | None = None,
    *,
    keeps_shape: bool = False,
) -> AcceptedJob:
    """The job with everything resolved.

    ``resolved``: the class of a job that is admitted again, which stays the same; None for a new job. If it is given,
    access lists, the fit on nodes and the limits of the job's own texts are not checked again.
    ``keeps_shape``: the job's amounts and nodes were admitted before, perhaps under other limits. They are not checked
    again either.

    Raises:
        Refused: with the code, the field and what to do.
    """
    is_new = resolved is None
    _check_values(request, tables.settings, is_new=is_new)
    found = _look_up(request, submitter, tables, keeps_shape=keeps_shape)
    named = (request.priority_class, request.priority, request.preemption_policy)
    resolved = resolved or resolve(tables.classes, *named, submitter.privileged)
    remarks: tuple[str, ...] = ()
    if is_new and request.notify is not None:
        settings, is_array = tables.settings.notifications, request.array is not None
        notify, remarks = decide_notify(request.notify, found.user, settings, is_array=is_array)
        request = msgspec.structs.replace(request, notify=notify)
    if is_new and not submitter.privileged:
        check_rights(_named(found, resolved), tables.rights)
    check_queue_maximum(request, found.resources, found.queue)
    if not keeps_shape:
        check_user_limits(request, found.resources, found.queue, found.user, found.groups)
        check_constraints(request.constraints, _least_nodes(request))
    if tables.nodes is not None and is_new:
        check_fit(_shape(request, found), tables.nodes, _bounds(request, found))
    accepted = _accepted(request, found, resolved, submitter, tables.settings)
    return msgspec.structs.replace(accepted, remarks=remarks) if remarks else accepted


class _Found(NamedTuple):
    """The resolved names and amounts of a request."""

    user: str
    account: str
    groups: tuple[str, ...]
    queue: QueueEntry
    qos: str
    resources: Resources


def _named(found: _Found, resolved: Resolved) -> Named:
    return Named(found.user, found.groups, found.queue, found.qos, resolved.name, found.account)


def _check_values(request: JobRequest, settings: Settings, *, is_new: bool) -> None:
    """Make the checks that need no table except the settings."""
    if is_new:
        check_own(request, settings)
        check_when(request)
        if request.interactive is not None:
            check_interactive(request)
    check_texts(request, LOOKED_UP_TEXTS)
    check_numbers(request)


def _look_up(request: JobRequest, submitter: Submitter, tables: AdmissionTables, *, keeps_shape: bool) -> _Found:
    user = _user(request, submitter)
    account = _account(request, user, tables)
    resources = read_request(request.resources) if keeps_shape else _amounts(request, tables)
    queue = resolve_queue(request, tables)
    qos = _qos(request, tables.settings)
    return _Found(user, account, tables.groups.get(user, ()), queue, qos, resources)


def _accepted(
    request: JobRequest, found: _Found, resolved: Resolved, submitter: Submitter, settings: Settings
) -> AcceptedJob:
    return AcceptedJob(
        user=found.user,
        account=found.account,
        queue=found.queue.path,
        qos=found.qos,
        partition=found.queue.partition,
        class_value=resolved.class_value,
        priority_class=resolved.name,
        preemption_policy=resolved.preemption_policy,
        urgency=check_urgency(request.urgency, submitter),
        held=request.held or request.urgency == URGENCY_HOLD,
        nodes=request.nodes,
        min_nodes=_least_nodes(request),
        resources=found.resources,
        request=_with_time_limit(request, settings),
        groups=found.groups,
        made=found.queue.made,
        array=_array(request, settings),
        bounds=_bounds(request, found),
    )


def _bounds(request: JobRequest, found: _Found) -> tuple[tuple[str, Resources], ...]:
    return bounds_of(found.queue, found.user, found.groups) if request.exclusive else ()


def _array(request: JobRequest, settings: Settings) -> ArrayRequest | None:
    return None if request.array is None else parse_array(request.array, settings.admission.max_array_tasks)


def _least_nodes(request: JobRequest) -> int:
    return request.nodes if request.min_nodes is None else request.min_nodes


def _amounts(request: JobRequest, tables: AdmissionTables) -> Resources:
    rule = tables.settings.admission
    return asked_amounts(
        request.resources, request.nodes, tables.resource_types, allow_zero_cores=rule.allow_zero_cores
    )


def _shape(request: JobRequest, found: _Found) -> Shape:
    return Shape(
        partition=found.queue.partition,
        nodes=request.nodes,
        min_nodes=_least_nodes(request),
        resources=found.resources,
        constraints=request.constraints,
        exclusive=request.exclusive,
    )


def _with_time_limit(request: JobRequest, settings: Settings) -> JobRequest:
    """The request with the configured time limit, if it has none of its own and one is configured."""
    limit = settings.scheduling.default_time_limit_s
    if request.time_limit_s is not None or limit is None:
        return request
    return msgspec.structs.replace(request, time_limit_s=limit)


def check_own(request: JobRequest, settings: Settings) -> None:
    """Check the job's own texts. This needs no table.

    This runs for every job of a batch. Short and plain texts pass in a few steps. Others are checked field by field.

    Raises:
        Refused: ``empty_command``, ``bad_text``, ``too_long``, ``path_too_long``, ``path_too_deep``, ``bad_script``,
            ``script_too_large``.
    """
    if not is_plain(request.command, MAX_COMMAND_WORDS):
        check_command(request.command)
    if request.env:
        check_environment(request.env, settings.admission.max_env_bytes)
    if request.script is not None:
        check_script(request.script, settings.admission.max_script_bytes)
    texts = (
        f"{request.name}{request.key}{request.application}{request.comment}"
        f"{request.cwd}{request.stdin}{request.stdout}{request.stderr}"
    )
    if len(texts) > SURELY_SHORT or "\0" in texts or texts.count("/") >= MAX_PATH_DEPTH:
        check_own_texts(request)
        check_paths(request)


def check_numbers(request: JobRequest) -> None:
    """Check that all numbers and times of the job are in their ranges.

    Raises:
        Refused: ``bad_nodes``, ``bad_min_nodes``, ``bad_urgency``, ``bad_time_limit``, ``bad_begin_at``.
    """
    _check_range("nodes", request.nodes, 1, MAX_NODES)
    if request.min_nodes is not None:
        _check_range("min_nodes", request.min_nodes, 1, request.nodes)
    _check_range("urgency", request.urgency, URGENCY_HOLD, URGENCY_EXPEDITE)
    limit = request.time_limit_s
    if limit is not None and not (math.isfinite(limit) and limit > 0):
        raise Refused("bad_time_limit", f"time_limit_s is {limit}; give seconds above 0", "time_limit_s")
    if request.begin_at is not None and not math.isfinite(request.begin_at):
        raise Refused("bad_begin_at", f"begin_at is {request.begin_at}; give UTC seconds", "begin_at")


def check_when(request: JobRequest) -> None:
    """Check when the job may begin, how long it may run, and that its dependencies name jobs by their ids.

    Raises:
        Refused: ``bad_time_limit``, ``bad_begin_at``, ``too_many``, ``bad_dependency``.
    """
    if request.time_limit_s is not None and request.time_limit_s > MAX_TIME_LIMIT_S:
        asked = shown_length(request.time_limit_s) if math.isfinite(request.time_limit_s) else "infinite"
        message = (
            f"time_limit_s is {cut(asked)} ({request.time_limit_s:.10g} s); give at most"
            f" {shown_length(MAX_TIME_LIMIT_S)} ({MAX_TIME_LIMIT_S} s), or leave it out"
        )
        raise Refused("bad_time_limit", message, "time_limit_s")
    if request.begin_at is not None and not 0 <= request.begin_at <= LATEST_AT:
        message = f"begin_at is {request.begin_at:g}; give UTC seconds from 0 to {LATEST_AT:.0f}, the end of 9999"
        raise Refused("bad_begin_at", message, "begin_at")
    if not request.depends_on:
        return
    check_count("depends_on", len(request.depends_on), MAX_DEPENDENCIES, "entries", "put a job in between")
    check_form(request.depends_on)


def _check_range(field: str, value: int, lowest: int, highest: int) -> None:
    if not lowest <= value <= highest:
        raise Refused(f"bad_{field}", f"{field} is {value}; give {lowest} to {highest}", field)


def _user(request: JobRequest, submitter: Submitter) -> str:
    if request.user is not None:
        check(submitter, "job.submit", NewJob(request.user))
    user = request.user or submitter.user
    if not user or len(user) > MAX_NAME or not user.isprintable():
        raise Refused("bad_user", f"'{cut(user)!r}' is not a user name", "user")
    return user


def _account(request: JobRequest, user: str, tables: AdmissionTables) -> str:
    account = request.account or tables.default_accounts.get(user)
    rule = tables.settings.admission
    if account is None:
        if rule.unknown_association == "refuse":
            message = f"user '{user}' is in no account; ask an administrator to add one to accounts.yaml"
            raise Refused("unknown_association", message, "user", status=403)
        account = rule.default_account
    if account not in tables.accounts:
        raise Refused("unknown_account", unknown("account", account, sorted(tables.accounts)), "account")
    if account in tables.rights.accounts:  # its list decides, in check_rights
        return account
    open_to_all = account == rule.default_account and rule.unknown_association != "refuse"
    if (account, user) not in tables.associations and not open_to_all:
        message = f"user '{user}' is not in account '{account}'; name one of your own, or leave it out"
        raise Refused("unknown_association", message, "account", status=403)
    return account


def resolve_queue(request: JobRequest, tables: AdmissionTables) -> QueueEntry:
    """The leaf queue of the job: the one that it names, or the default one, in the first partition that has it.

    If no partition has this queue, the first partition that allows it gets a new queue.

    Raises:
        Refused: ``unknown_partition``, ``unknown_queue``, ``removed_queue``, ``parent_queue``, ``bad_queue_name``.
    """
    if request.partition is not None and request.partition not in tables.partitions:
        message = unknown("partition", request.partition, tables.partitions)
        queue = find_queue(request.partition, tables.partitions, tables.queues)
        if queue is not None:
            message += f"; partitions of Slurm are queues here: write queue '{queue.path}' (-q)"
        raise Refused("unknown_partition", message, "partition")
    wanted = request.queue or DEFAULT_QUEUE
    check_depth(wanted)
    partitions = tables.partitions if request.partition is None else (request.partition,)
    found = find_queue(wanted, partitions, tables.queues) or made_queue(wanted, partitions, tables.queues)
    if found is None:
        raise _no_queue(wanted, partitions, tables)
    if not found.is_leaf:
        message = f"'{found.path}' is a parent queue; name one of the queues below it"
        raise Refused("parent_queue", message, "queue")
    return found


def _no_queue(wanted: str, partitions: Sequence[str], tables: AdmissionTables) -> Refused:
    for partition in partitions:
        for path in (wanted, f"{ROOT_QUEUE}.{wanted}"):
            if (partition, path.lower()) in tables.removed:
                message = f"the queue '{path}' was removed from queues.yaml; name another one"
                return Refused("removed_queue", message, "queue")
    leaves = (entry.path for entry in tables.queues.values() if entry.is_leaf)
    return Refused("unknown_queue", unknown("queue", wanted, islice(leaves, MOST_COMPARED)), "queue")


def check_queue_maximum(request: JobRequest, resources: Resources, queue: QueueEntry) -> None:
    """Check that the job alone is within the maxima of its queue.

    Raises:
        Refused: ``queue_quota``.
    """
    least = _least_nodes(request)
    for kind, amount in resources.items():
        if kind in queue.maximum and amount * least > queue.maximum[kind]:
            asked, most = compared(kind, amount * least, queue.maximum[kind])
            message = (
                f"the job asks for {asked} of {kind}, but {queue.path} may never use more than {most}; ask for less,"
                " or name another queue"
            )
            raise Refused("queue_quota", message, "resources")


def _qos(request: JobRequest, settings: Settings) -> str:
    wanted = request.qos or settings.default_qos
    known = [qos.name for qos in settings.qos]
    if wanted not in known:
        raise Refused("unknown_qos", unknown("QoS", wanted, known), "qos")
    return wanted


def check_urgency(urgency: int, submitter: Submitter) -> int:
    """The urgency, if this submitter may use it.

    Raises:
        Refused: ``urgency_not_allowed``.
    """
    if urgency > URGENCY_DEFAULT and may(submitter, "job.submit urgency"):
        message = f"urgency {urgency} is for administrators; users may give {URGENCY_HOLD} to {URGENCY_DEFAULT}"
        message += " (administrators add --admin)"
        raise Refused("urgency_not_allowed", message, "urgency", status=403)
    return urgency


def vcore_of(resources: Resources) -> int:
    """Thousandths of a core per node."""
    return resources.get(VCORE, 0)
