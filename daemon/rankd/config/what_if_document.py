"""A live document with another configuration, or with more jobs: the effect of a reload or a submission."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from rankd.config.configuration import Configuration
from rankd.core.admission.rights import with_given
from rankd.core.evaluate.document import Document, JobEntry
from rankd.core.evaluate.whatif import stated_over
from rankd.core.model.access import AccessList
from rankd.core.model.priority_class import PriorityClass
from rankd.core.model.setting import Qos


def with_configuration(
    document: Document, stated: Configuration, queues: object, given: Mapping[str, AccessList]
) -> Document:
    """The document with a configuration's settings, queues, QoS and shares; usage, jobs, classes and nodes are kept.

    Args:
        document: the live state.
        stated: the configuration with the adapters' inputs applied.
        queues: the document of its queues.yaml; None if there is none.
        given: the access lists that classes were given while rankd runs. They stay in a reload.
    """
    rule = stated.settings.admission.unknown_association
    return msgspec.structs.replace(
        document,
        priority=stated.settings.priority,
        scheduling=stated.settings.scheduling,
        queues=UNSET if queues is None else Raw(msgspec.json.encode(queues)),
        qos=_with_gone(stated.settings.qos, document.qos or ()),
        associations=stated_over(document.associations or (), stated.associations, drops_users=rule == "zero"),
        unknown_association=rule,
        access=with_given(stated.access, given),
        priority_classes=_with_missing(document.priority_classes or [], stated.classes),
    )


def _with_gone(stated: Sequence[Qos], live: Sequence[Qos]) -> list[Qos]:
    """The configured QoS and those that only jobs still have; the latter have no effect on priorities."""
    names = {qos.name for qos in stated}
    gone = [qos for qos in live if qos.name not in names]
    return [*stated, *(Qos(name=qos.name, usage_factor=qos.usage_factor) for qos in gone)]


def _with_missing(live: list[Raw], stated: Sequence[PriorityClass]) -> list[Raw]:
    """The live classes and missing ones of the configuration, which changes no existing class."""
    names = {msgspec.json.decode(row)["name"] for row in live}
    return [*live, *(Raw(msgspec.json.encode(one)) for one in stated if one.name not in names)]


def job_entries(
    requests: bytes, user: str, configuration: Configuration, at: float, *, privileged: bool = False
) -> list[JobEntry]:
    """Jobs in the form of ``job.submit`` (one, a list, or ``{"jobs": […]}``) as entries ``new-1``, ``new-2``, ….

    Raises:
        msgspec.MsgspecError: they are not valid jobs.
    """
    rows = [
        {
            "user": user,
            "submitted_at": at,
            "privileged": privileged,
            **job,
            "id": f"new-{number}",
        }
        for number, job in enumerate(_jobs(msgspec.json.decode(requests)), start=1)
    ]
    entries = msgspec.convert(rows, list[JobEntry])
    groups, default_qos = configuration.groups, configuration.settings.default_qos
    return [
        msgspec.structs.replace(entry, qos=entry.qos or default_qos, groups=list(groups.get(entry.user or "", ())))
        for entry in entries
    ]


def _jobs(given: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - whatever a JSON text holds
    jobs = given.get("jobs", given) if isinstance(given, dict) else given
    found = [jobs] if isinstance(jobs, dict) else jobs
    if not isinstance(found, list) or not found or not all(isinstance(job, dict) for job in found):
        message = 'write a job as an object, a list of jobs, or {"jobs": [...]}'
        raise msgspec.ValidationError(message)
    return found
