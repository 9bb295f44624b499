"""The differences between the texts of two configurations, key by key, for people.

List entries with names (accounts, users, queues, QoS, classes) are compared by name, in any order. An adapter's
``options`` may contain a password, so a change there is reported without the values.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from rankd.config.change import FILES, Change
from rankd.config.yaml_value import SafeLoader

HIDDEN = "(hidden)"

_SAME_IN_ALL = frozenset({"metadata", "apiVersion", "kind"})
"""Keys of class manifests that are the same for every class."""

LONGEST = 60
"""Longer values are cut."""


def differences(old: Mapping[str, str], new: Mapping[str, str]) -> list[Change]:
    """The changes by file, in the order of their keys. Both texts have been read without a problem."""
    return [
        change
        for name in FILES
        if old.get(name) != new.get(name)
        for change in _in_file(name, old.get(name), new.get(name))
    ]


def _in_file(name: str, old: str | None, new: str | None) -> list[Change]:
    try:
        found = list(_between(name, "", _parsed(name, old), _parsed(name, new)))
    except (ValueError, yaml.YAMLError):  # recorded by a version that could read it
        return [Change(file=name, key=name, old="another text", new="this one")]
    return found or [Change(file=name)]


def _parsed(name: str, text: str | None) -> object:
    if not text:
        return {}
    if name.endswith(".toml"):
        return tomllib.loads(text)
    documents = [one for one in yaml.load_all(text, Loader=SafeLoader) if one is not None]
    if name == "priorityclasses.yaml":
        return {"classes": list(_manifests(documents))}
    return documents[0] if documents else {}


def _manifests(documents: list[object]) -> Iterator[object]:
    """The classes with their names, including those in lists."""
    for document in documents:
        if isinstance(document, dict) and isinstance(document.get("items"), list):
            yield from _manifests(document["items"])
        elif isinstance(document, dict) and isinstance(document.get("metadata"), dict):
            rest = {key: value for key, value in document.items() if key not in _SAME_IN_ALL}
            annotations = document["metadata"].get("annotations") or {}
            yield {"name": document["metadata"].get("name"), **annotations, **rest}


def _between(file: str, path: str, old: object, new: object) -> Iterator[Change]:
    if old == new and type(old) is type(new):
        return
    before, after = _entries(old), _entries(new)
    if before is None or after is None:
        yield Change(file=file, key=path, old=_shown(path, old), new=_shown(path, new))
        return
    for key in [*before, *(key for key in after if key not in before)]:
        inner = f"{path}.{key}" if path else str(key)
        if key not in after:
            yield Change(file=file, key=inner, old=_shown(inner, before[key]))
        elif key not in before:
            yield Change(file=file, key=inner, new=_shown(inner, after[key]))
        elif _is_secret(inner):
            if before[key] != after[key]:
                yield Change(file=file, key=inner, old=HIDDEN, new=HIDDEN)
        else:
            yield from _between(file, inner, before[key], after[key])


def _entries(value: object) -> Mapping[Any, object] | None:
    """A table, or a list of named entries, by key; None for anything else."""
    if isinstance(value, dict):
        return {key: inner for key, inner in value.items() if key != "name"}
    if isinstance(value, list) and value and all(isinstance(one, dict) and "name" in one for one in value):
        named = {str(one["name"]): one for one in value}
        return named if len(named) == len(value) else None
    return {} if value == [] else None


def _shown(path: str, value: object) -> str:
    """A value on one line; for a table or list, its plain entries."""
    if _is_secret(path):
        return HIDDEN
    entries = _entries(value)
    if entries is not None:
        plain = {key: inner for key, inner in entries.items() if not _is_secret(f"{path}.{key}")}
        value = ", ".join(f"{key} {inner}" if _is_plain(inner) else str(key) for key, inner in plain.items())
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float | bool)


def _is_secret(path: str) -> bool:
    return path.startswith("adapters.") and "options" in path.split(".")[2:]
