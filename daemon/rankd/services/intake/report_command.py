"""The command line that computes a report, made from a fully checked request. Pure."""

from __future__ import annotations

import math
import re

from rankd.config.change import FILES
from rankd.core.admission.permission import check
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused
from rankd.wire.report import ReportRequest

CONFIG = "config"
SUBMIT = "submit.json"

_FACTOR = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")

_INSTANT = re.compile(r"[0-9]{1,15}|@[0-9]{1,12}(\.[0-9]{1,9})?")
"""The number of a generation, or UTC seconds."""

_NAME = re.compile(r"[^-=\s\x00-\x1f\x7f][^=\x00-\x1f\x7f]{0,1023}")
"""A class, a QoS or the path of a queue, as a word of a command."""

ALL = 2**31 - 1


def check_request(request: ReportRequest, asker: Submitter) -> None:
    """Check that this asker may have this report, and that every field can be passed on.

    Raises:
        Refused: ``admins_only``, ``missing_field``, ``bad_field``.
    """
    check(asker, f"report.make {request.kind}")
    if request.files is not None:
        check(asker, "report.make files")
    if request.kind == "gap" and request.job is None:
        raise Refused("missing_field", "name the job", "job")
    if request.kind == "replay" and request.at is None:
        raise Refused("missing_field", "give the number of a generation, or a time as @SECONDS", "at")
    if request.at is not None and not _INSTANT.fullmatch(request.at):
        message = f"'{request.at}' is neither the number of a generation, nor a time as @SECONDS"
        raise Refused("bad_field", message, "at")
    _check_names(request)
    if unknown := sorted(set(request.files or ()) - set(FILES)):
        raise Refused("bad_field", f"unknown file '{unknown[0]}'; known: {', '.join(FILES)}", "files")


def _check_names(request: ReportRequest) -> None:
    """Check the names of what shall have other values, and that weights are finite."""
    for name, weight in request.weights.items():
        if not _FACTOR.fullmatch(name):
            raise Refused("bad_field", f"'{name}' is not a factor's name", "weights")
        if not math.isfinite(weight):
            raise Refused("bad_field", f"the weight of {name} is {weight}, which is not finite", "weights")
    for field, names in (("classes", request.classes), ("qos", request.qos), ("offsets", request.offsets)):
        for name in names:
            if not _NAME.fullmatch(name):
                raise Refused("bad_field", f"'{name}' can't be the name of what shall change", field)


def command_words(request: ReportRequest, asker: Submitter, database: str, folder: str) -> list[str]:
    """The words after ``rankd``. ``folder`` holds the configuration and the jobs of the request."""
    place = [f"--db={database}"]
    match request.kind:
        case "dump":
            return ["dump", "--json", *([] if request.at is None else [f"--at={request.at}"]), *place]
        case "replay":
            return ["replay", "--json", f"--at={request.at}", *place]
        case "gap":
            return ["why", str(request.job), "--gap", "--json", *place]
        case "configurations":
            return ["config", "history", "--json", *_limit(request.limit), *place]
        case "reload":
            return ["reload", "--dry-run", *_limit(request.limit), *([] if request.text else ["--json"]), *place]
    return _what_if_words(request, asker, place, folder)


def _what_if_words(request: ReportRequest, asker: Submitter, place: list[str], folder: str) -> list[str]:
    words = ["whatif", "--json", f"--as={asker.user}", *(["--admin"] if asker.privileged else []), *place]
    if request.weights:
        words += ["--weights", *(f"{name}={weight!r}" for name, weight in request.weights.items())]
    if request.classes:
        words += ["--class-value", *(f"{name}={value}" for name, value in request.classes.items())]
    if request.qos:
        words += ["--qos", *(f"{name}={priority}" for name, priority in request.qos.items())]
    if request.offsets:
        words += ["--offset", *(f"{path}={offset}" for path, offset in request.offsets.items())]
    if request.summary:
        words.append("--summary")
    if request.files is not None:
        words.append(f"--config={folder}/{CONFIG}")
    if request.submit is not None:
        words.append(f"--submit={folder}/{SUBMIT}")
    return words


def _limit(rows: int) -> list[str]:
    """The option for the number of rows. On the bus, 0 means all."""
    return [f"--limit={rows or ALL}"]
