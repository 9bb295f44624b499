"""The Python client. Programs use :class:`Client` or :class:`SyncClient`; the command line uses the modules below.

Names are imported when they are used, so that a command imports only what it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rankd.client.client import Client
    from rankd.client.error import (
        BadRequest,
        Closed,
        Conflict,
        NotAllowed,
        NotFound,
        NotReady,
        OverLimit,
        RequestError,
        TooLarge,
        WaitTimeout,
    )
    from rankd.client.sync_client import SyncClient
    from rankd.core.model.job import JobRequest

_ERRORS = (
    "BadRequest",
    "Closed",
    "Conflict",
    "NotAllowed",
    "NotFound",
    "NotReady",
    "OverLimit",
    "RequestError",
    "TooLarge",
    "WaitTimeout",
)
_MODULES = {
    "Client": "rankd.client.client",
    "SyncClient": "rankd.client.sync_client",
    "JobRequest": "rankd.core.model.job",
    **dict.fromkeys(_ERRORS, "rankd.client.error"),
}

__all__ = [
    "BadRequest",
    "Client",
    "Closed",
    "Conflict",
    "JobRequest",
    "NotAllowed",
    "NotFound",
    "NotReady",
    "OverLimit",
    "RequestError",
    "SyncClient",
    "TooLarge",
    "WaitTimeout",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        message = f"module 'rankd.client' has no attribute '{name}'"
        raise AttributeError(message)
    return getattr(import_module(_MODULES[name]), name)
