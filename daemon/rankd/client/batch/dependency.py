"""The dependencies of a job in Slurm's syntax, and messages about what is wrong in them. Pure."""

from __future__ import annotations

import re
from typing import Any

from rankd.core.errors import Refused
from rankd.core.near_name import cut, near_name

TYPES = ("afterok", "afterany", "afternotok", "aftercorr", "after")
SINGLETON = "singleton"

_JOB = "[0-9]+(?:_[0-9]+)?"
_DEPENDENCY = f"(?P<type>{'|'.join(TYPES)})(?P<jobs>(?::{_JOB})+)"
_SEVERAL = r"(?P<array>[0-9]+)_\[(?P<list>[0-9,:%-]*)\]?"
_EXAMPLES = "afterok:17, afterok:17_3, afterany:17:18, afternotok:17, after:17, aftercorr:17 or singleton"


def parse_dependencies(text: str) -> list[dict[str, Any]]:
    """The dependencies of ``--dependency``. All of them must be met.

    >>> parse_dependencies("afterok:1:2,afterany:3_4,singleton")[-2:]
    [{'type': 'afterany', 'job': '3_4'}, {'type': 'singleton'}]

    Raises:
        Refused: ``usage``: a part is not one; the message has what to write in its place.
    """
    if "?" in text:
        message = f"'{cut(text)}': alternatives (?) are not supported; separate dependencies by commas: all must be met"
        raise Refused("usage", message, "dependency")
    found: list[dict[str, Any]] = []
    for item in map(str.strip, re.split(r",(?![^\[]*\])", text)):
        if item == SINGLETON:
            found.append({"type": SINGLETON})
            continue
        match = re.fullmatch(_DEPENDENCY, item)
        if not match:
            raise Refused("usage", f"'{cut(item)}' {_what_is_wrong(item, found)}", "dependency")
        jobs = match["jobs"][1:].split(":")
        found += [{"type": match["type"], "job": int(job) if job.isdecimal() else job} for job in jobs]
    return found


def _what_is_wrong(item: str, before: list[dict[str, Any]]) -> str:
    """The end of the sentence about an item. ``before``: the dependencies in front of it."""
    kind, colon, jobs = item.partition(":")
    if re.fullmatch(f"{_JOB}(:{_JOB})*", item):
        return f"lacks a type; {_instead_of_a_job(item, before)}"
    if kind == SINGLETON:
        return "names a job, which singleton does not; write singleton alone"
    if kind in TYPES:
        return _what_is_wrong_with_jobs(kind, jobs)
    near = _near_type(kind)
    if near is None:
        return f"is not a dependency; write {_EXAMPLES}"
    return f"has an unknown type; write {near}{colon}{cut(jobs)}"


def _what_is_wrong_with_jobs(kind: str, jobs: str) -> str:
    wrong = next((job for job in jobs.split(":") if not re.fullmatch(_JOB, job)), "")
    if not jobs.strip(":"):
        return f"names no job; write {kind}:17"
    if several := re.fullmatch(_SEVERAL, wrong):
        array = several["array"]
        return f"names several tasks at once; write {kind}:{array}_0:{array}_1, or {kind}:{array} for the whole array"
    if re.fullmatch(rf"{_JOB}\+[0-9]+", wrong):
        job = wrong.partition("+")[0]
        return f"has a delay after the start (+), which is not supported; write {kind}:{job}, and --begin for a time"
    return f"has '{cut(wrong)}' in the place of a job; write {kind}:17, or {kind}:17_3 for a task"


def _instead_of_a_job(item: str, before: list[dict[str, Any]]) -> str:
    last = before[-1]["type"] if before else SINGLETON
    if last != SINGLETON:
        job = before[-1]["job"]
        return f"jobs of one type are separated by colons: write {last}:{job}:{item}"
    return f"write afterok:{item} to wait until it has completed, or afterany:{item} until it has ended in any way"


def _near_type(word: str) -> str | None:
    """The type that was probably meant: ``afterOk``, ``after_ok``, ``ok``."""
    plain = re.sub("[^a-z]", "", word.lower())
    for kind in (*TYPES, SINGLETON):
        if plain and plain in (kind, kind.removeprefix("after")):
            return kind
    return near_name(plain, (*TYPES, SINGLETON))
