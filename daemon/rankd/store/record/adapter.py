"""Adapters in the database: the result of each one's last reading, and the input that is in force.

The prioritizer writes them. Every service applies the inputs to its configuration (:func:`in_force`) when it starts and
when :func:`inputs_revision` changes. So the last valid input survives a restart, and the loss of its source.

Statements are text, both for SQLAlchemy's ``exec_driver_sql`` and for ``execute`` of a plain connection. The command
line reads the inputs too (``rankd dump``), and must not import SQLAlchemy (0.6 s). :mod:`.adapter_result` writes them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from rankd.config.adapter import with_inputs
from rankd.config.configuration import Configuration
from rankd.core.adapter.input import Input
from rankd.core.errors import ConfigurationError
from rankd.core.model.setting import AdapterSettings

log = logging.getLogger("rankd.adapter")

Query = Callable[[str], Iterable[Any]]
"""Runs a statement: SQLAlchemy's ``exec_driver_sql``, or ``execute`` of a plain connection."""

InputsRevision = tuple[tuple[str, str, int, float | None], ...]
"""For each adapter: its name, the kind of its input, how often the input changed, and when it last changed."""

_INPUT = msgspec.json.Decoder(Input)


class StoredInput(msgspec.Struct, frozen=True, kw_only=True):
    """The input of the adapter ``name``. ``read_at``: when its source last provided it (UTC seconds)."""

    name: str
    input: Input
    read_at: float
    digest: str = ""


class InForce(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration with the inputs applied, and these inputs."""

    configuration: Configuration
    inputs: tuple[StoredInput, ...] = ()


def in_force(query: Query, configuration: Configuration) -> InForce:
    """The configuration in force now. An input that no longer fits it is logged and left out."""
    return laid_over(configuration, stored_inputs(query, configuration.settings.adapters))


def laid_over(configuration: Configuration, inputs: Iterable[StoredInput], new: str | None = None) -> InForce:
    """The configuration with these inputs applied in their order. Inputs that do not fit are logged and left out.

    Raises:
        ConfigurationError: the input of adapter ``new`` and the inputs before it do not make a valid account tree.
    """
    used: list[StoredInput] = []
    effective = configuration
    for stored in inputs:
        try:
            effective = with_inputs(configuration, [*(one.input for one in used), stored.input])
        except ConfigurationError as error:
            if stored.name == new:
                raise
            log.warning("the last input of adapter '%s' does not fit the configuration: %s", stored.name, error.message)
        else:
            used.append(stored)
    return InForce(configuration=effective, inputs=tuple(used))


def stored_inputs(query: Query, adapters: Sequence[AdapterSettings]) -> list[StoredInput]:
    """The inputs of these adapters, in their order. An adapter without an input is left out."""
    if not adapters:
        return []
    sql = "SELECT name, input, content, read_at, digest FROM adapters WHERE content IS NOT NULL"
    rows = {(name, kind): rest for name, kind, *rest in query(sql)}
    found = []
    for adapter in adapters:
        row = rows.get((adapter.name, adapter.input))
        if row is not None:
            content, read_at, digest = row
            given = _INPUT.decode(content)
            if given.factor == adapter.factor:
                found.append(StoredInput(name=adapter.name, input=given, read_at=read_at, digest=digest))
    return found


def inputs_revision(query: Query) -> InputsRevision:
    """A value that changes whenever an input changes, appears or disappears, or its names are written later."""
    found = query("SELECT name, input, revision, changed_at FROM adapters ORDER BY name")
    return tuple((name, kind, int(revision), changed_at) for name, kind, revision, changed_at in found)
