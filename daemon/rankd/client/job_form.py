"""What a program gives to submit: a job as a struct or a mapping, or a script; as it is sent."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from rankd.client.given import with_dependencies
from rankd.client.key import Job
from rankd.core.admission.script_check import MOST_BYTES, check_script
from rankd.core.errors import Refused
from rankd.core.model.job import JobRequest
from rankd.core.submission.directive import read_directives

JobLike = JobRequest | Mapping[str, Any]
ScriptLike = str | Path
Directives = Literal["read", "ignore"]
"""What happens to lines #RANKD and #SBATCH of a script."""

SHEBANG = "#!"
SCRIPT_OUTPUT, TASK_OUTPUT = "job-%j.out", "job-%A_%a.out"


def job_of(
    given: JobLike | ScriptLike | None, fields: Mapping[str, Any], *, is_local: bool, said: list[str] | None = None
) -> Job:
    """The job as it is sent. ``fields`` replace its own. ``is_local``: it can use this process's directory.

    ``said`` gets what the lines of a script warn of, which are Python warnings as well.

    Raises:
        Refused: ``bad_dependency``; ``bad_script``, ``script_too_large``, ``bad_directive``, ``usage``: a script can't
            be submitted so.
    """
    if isinstance(given, str | Path):
        job = _of_script(given, fields, [] if said is None else said)
    else:
        fields = {name: value for name, value in fields.items() if name not in ("args", "directives")}
        job = {**({} if given is None else _document(given)), **fields}
    if (is_local or "script" in job) and job.get("cwd") is None:
        job["cwd"] = str(Path.cwd())
    return with_dependencies(job)


def jobs_of(given: Sequence[object], *, is_local: bool) -> list[Job]:
    """A list of jobs as they are sent.

    Raises:
        TypeError: an entry is not a job.
    """
    found = list[Job]()
    for one in given:
        if not isinstance(one, JobRequest | Mapping):
            message = f"{one!r:.60} is not a job; give a list of jobs, or one job by command=[…]"
            raise TypeError(message)
        found.append(job_of(one, {}, is_local=is_local))
    return found


def _document(given: JobLike) -> Job:
    """The fields that differ from their defaults, so that a service of an earlier version knows all of them."""
    if isinstance(given, Mapping):
        return dict(given)
    document: Job = {}
    for field in msgspec.structs.fields(given):
        value = getattr(given, field.name)
        default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
        if value != default:
            document[field.encode_name] = msgspec.to_builtins(value)
    return document


def _of_script(given: ScriptLike, fields: Mapping[str, Any], said: list[str]) -> Job:
    """A script's job: its first word is only a name; output goes where sbatch would write it."""
    more = dict(fields)
    arguments, directives = more.pop("args", ()), more.pop("directives", "read")
    text, name = _read(given)
    check_script(text, MOST_BYTES)
    if directives == "read" and read_directives(text):
        from rankd.client.batch.script import Script
        from rankd.client.batch.script_job import script_job

        job = script_job(Script(text, name, arguments), more.get("array"), said.append)
        for line in said:
            warnings.warn(line, UserWarning, stacklevel=2)
        env = job.get("env", {}) | (more.get("env") or {})
        return {**job, **more, **({"env": env} if env else {})}
    output = SCRIPT_OUTPUT if more.get("array") is None else TASK_OUTPUT
    return {"command": [name, *arguments], "script": text, "stdout": output, "stderr": output, **more}


def _read(given: ScriptLike) -> tuple[str, str]:
    if isinstance(given, str) and given.startswith(SHEBANG):
        return given, "script"
    path = Path(given)
    try:
        with path.open("rb") as opened:
            return opened.read(MOST_BYTES + 1).decode(), path.name
    except OSError as error:
        message = f"can't read the script '{os.fspath(given)[:200]}': {error.strerror}; a text has to begin with #!"
        raise Refused("bad_script", message, "script") from None
    except UnicodeDecodeError:
        raise Refused("bad_script", f"'{path.name}' is not text in UTF-8", "script") from None
