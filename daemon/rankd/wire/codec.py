"""Decoding of JSON, with errors that name the field, and the encoding of :mod:`.encoding`."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from rankd.core.errors import Refused
from rankd.core.model.job import JobRequest
from rankd.wire.encoding import UNREADABLE, encode
from rankd.wire.request_size import check_request
from rankd.wire.submission import MAX_JOBS_PER_MESSAGE, JobBatch

T = TypeVar("T")

__all__ = ["UNREADABLE", "decode_job", "decode_of_node", "decode_strict", "decode_submission", "encode"]

_PLACE = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>[^`]+)`")
_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]+)`")


class _Probe(msgspec.Struct, frozen=True):
    jobs: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_PROBE = msgspec.json.Decoder(_Probe)
_BATCH = msgspec.json.Decoder(JobBatch)
_JOB = msgspec.json.Decoder(JobRequest)


def decode_strict(payload: bytes | msgspec.Raw, kind: type[T]) -> T:
    """Decode a user's message.

    Raises:
        Refused: ``bad_request`` (not valid JSON) or ``bad_field``, with the field's path if there is one. Also as
        :func:`rankd.wire.request_size.check_request`.
    """
    return check_request(_decode(msgspec.json.Decoder(kind), payload or b"{}"))


def decode_of_node(payload: bytes, kind: type[T]) -> T:
    """Decode a message of a node's agent.

    Raises:
        ValueError: the payload is not such a message.
        Refused: as :func:`rankd.wire.request_size.check_request`.
    """
    return check_request(msgspec.json.decode(payload, type=kind))


def decode_submission(payload: bytes) -> JobRequest | JobBatch:
    """Decode one job, or a batch whose jobs :func:`decode_job` decodes one by one.

    Raises:
        Refused: as :func:`decode_strict`; ``too_many_jobs`` if the batch is over the limit.
    """
    if not isinstance(_decode(_PROBE, payload).jobs, msgspec.Raw):
        return decode_job(payload)
    batch = _decode(_BATCH, payload)
    if len(batch.jobs) > MAX_JOBS_PER_MESSAGE:
        message = f"{len(batch.jobs)} jobs in one message; send at most {MAX_JOBS_PER_MESSAGE}"
        raise Refused("too_many_jobs", message, "jobs", status=413)
    return batch


def decode_job(payload: bytes | msgspec.Raw) -> JobRequest:
    """Decode one job."""
    return _decode(_JOB, payload)


def _decode(decoder: msgspec.json.Decoder[T], payload: bytes | msgspec.Raw) -> T:
    try:
        return decoder.decode(payload)
    except msgspec.ValidationError as error:
        raise _refused(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused("bad_request", f"the message is not JSON: {error}") from None


def _refused(text: str) -> Refused:
    place = _PLACE.search(text)
    path = place.group("path") if place else ""
    message = text[: place.start()] if place else text
    if unknown := _UNKNOWN.search(text):
        field = ".".join(part for part in (path, unknown.group("field")) if part)
        return Refused("unknown_field", f"unknown field '{field}'; see the job format in the reference", field)
    if missing := _MISSING.search(text):
        field = ".".join(part for part in (path, missing.group("field")) if part)
        return Refused("missing_field", f"the field '{field}' is needed", field)
    return Refused("bad_field", f"{path}: {message}" if path else message, path or None)
