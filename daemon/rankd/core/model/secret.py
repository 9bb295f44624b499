"""Variables of a job's environment that rankd never stores: addresses of brokers, which may hold passwords. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

NEVER_STORED = frozenset({"RANKD_NATS"})

_BROKER_WITH_PASSWORD = re.compile(r"(nats|tls|ws|wss)://[^/@\s]*@", re.IGNORECASE)


def is_secret(name: str, value: str) -> bool:
    """Whether a variable names rankd's broker, or any NATS server with a user and a password."""
    return name in NEVER_STORED or _BROKER_WITH_PASSWORD.search(value) is not None


def without_secrets(env: Mapping[str, str]) -> dict[str, str]:
    """The environment without the variables that rankd never stores.

    >>> without_secrets({"RANKD_NATS": "nats://h", "A": "1", "B": "nats://ann:secret@h", "C": "postgres://u:p@h"})
    {'A': '1', 'C': 'postgres://u:p@h'}
    """
    return {name: value for name, value in env.items() if not is_secret(name, value)}
