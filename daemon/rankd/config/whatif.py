"""A live document under another configuration: what a reload would make of it."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import UNSET, Raw

from rankd.config.configuration import Configuration, load_configuration
from rankd.config.evaluation import queues_document
from rankd.core.evaluate.document import Document, JobEntry
from rankd.core.evaluate.whatif import stated_over


def with_configuration(document: Document, directory: Path) -> Document:
    """The document with the settings, queues, QoS and shares of a directory; usage, jobs and nodes stay.

    Raises:
        ConfigurationError: the directory's files can't be used.
    """
    stated = load_configuration(directory)
    queues = queues_document(directory)
    return msgspec.structs.replace(
        document,
        priority=stated.settings.priority,
        scheduling=stated.settings.scheduling,
        queues=UNSET if queues is None else Raw(msgspec.json.encode(queues)),
        qos=list(stated.settings.qos),
        associations=stated_over(document.associations or (), stated.associations),
        unknown_association=stated.settings.admission.unknown_association,
    )


def job_entries(requests: bytes, user: str, configuration: Configuration, at: float) -> list[JobEntry]:
    """Jobs as ``job.submit`` takes them, one or ``{"jobs": […]}``, as entries ``new-1``, ``new-2``, … of a document.

    Raises:
        msgspec.MsgspecError: they are none.
    """
    given = msgspec.json.decode(requests)
    jobs = given["jobs"] if isinstance(given, dict) and "jobs" in given else [given]
    rows = [
        {"user": user, "submitted_at": at, **job, "id": f"new-{number}"} for number, job in enumerate(jobs, start=1)
    ]
    entries = msgspec.convert(rows, list[JobEntry])
    groups = configuration.groups
    return [msgspec.structs.replace(entry, groups=list(groups.get(entry.user or "", ()))) for entry in entries]
