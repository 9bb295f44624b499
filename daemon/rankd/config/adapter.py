"""Adapters by entry points, and how stored inputs change a configuration. Imports nothing slow."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

import msgspec

from rankd.config.settings import FILE
from rankd.core.adapter.input import Input
from rankd.core.adapter.overlay import overlay_associations, overlay_groups, overlay_qos
from rankd.core.adapter.source import Adapter, ReadRequest
from rankd.core.errors import ConfigurationError, Problem
from rankd.core.model.setting import AdapterSettings

if TYPE_CHECKING:
    from rankd.config.configuration import Configuration

ADAPTERS = "rankd.adapters"


def load_adapter(settings: AdapterSettings, directory: str) -> Adapter:
    """The plugin, built for one reading.

    Raises:
        ConfigurationError: there is no such plugin, it can't be imported, or it refuses the options.
    """
    entry = _entry_point(settings)
    request = ReadRequest(
        input=settings.input,
        options=settings.options,
        directory=directory,
        time_limit_s=settings.time_limit_s,
        largest_bytes=settings.largest_bytes,
    )
    try:
        adapter = entry.load()(request)
    except ValueError as error:
        raise _refusal(settings, str(error)) from None
    except Exception as error:  # another package's module may fail in any way
        raise _refusal(settings, f"{entry.value} can't be used: {type(error).__name__}: {error}") from error
    if not isinstance(adapter, Adapter):
        raise _refusal(settings, f"{entry.value} does not implement rankd.core.adapter.source.Adapter")
    return adapter


def with_inputs(configuration: Configuration, inputs: Iterable[Input]) -> Configuration:
    """The configuration with the inputs of adapters applied: associations, QoS, groups.

    Raises:
        ConfigurationError: the result is not a valid account tree.
    """
    from rankd.core.fairshare.tree import AccountTree  # noqa: PLC0415 - imports numpy, which readers don't need

    taken = list(inputs)
    associations = [row for one in taken for row in one.associations]
    qos = [row for one in taken for row in one.qos]
    groups = [row for one in taken for row in one.groups]
    if associations:
        merged = overlay_associations(configuration.associations, associations)
        AccountTree.build(merged)
        configuration = msgspec.structs.replace(configuration, associations=merged)
    if qos:
        settings = msgspec.structs.replace(configuration.settings, qos=overlay_qos(configuration.settings.qos, qos))
        configuration = msgspec.structs.replace(configuration, settings=settings)
    if groups:
        configuration = msgspec.structs.replace(configuration, groups=overlay_groups(configuration.groups, groups))
    return configuration


def _entry_point(settings: AdapterSettings) -> EntryPoint:
    known = {entry.name: entry for entry in reversed(tuple(entry_points(group=ADAPTERS)))}
    if settings.adapter not in known:
        names = ", ".join(sorted(known))
        raise _refusal(settings, f"no installed package provides the adapter '{settings.adapter}'; known: {names}")
    return known[settings.adapter]


def _refusal(settings: AdapterSettings, message: str) -> ConfigurationError:
    return ConfigurationError([Problem(file=FILE, path=f"adapters '{settings.name}'", message=message)])
