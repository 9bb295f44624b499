"""YAML as plain values. Uses libyaml if it is installed: that is five times faster, for trees of thousands of users.

libyaml overflows its stack on a text that is nested too deeply. So the depth is counted first, on its events, which
needs no stack and little time.
"""

from __future__ import annotations

import yaml

from rankd.config.yaml_lines import DEEPEST, Unreadable

SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_OPENS = (yaml.SequenceStartEvent, yaml.MappingStartEvent)
_CLOSES = (yaml.SequenceEndEvent, yaml.MappingEndEvent)
MOST_VALUES = 1_000_000
"""Values of a document with references (``*name``). A few lines of references to references may mean billions."""


def load_yaml(text: str) -> object:
    """The document's value. No object is ever constructed from a tag.

    Raises:
        yaml.MarkedYAMLError: it is not YAML, or more than one document.
        Unreadable: it is nested too deeply, multiplied too much by references, or has characters that YAML does not
            allow.
    """
    try:
        has_references = _check_depth(text)
        value = yaml.load(text, Loader=SafeLoader)  # noqa: S506 - one of the two safe loaders
        if has_references:
            _check_size(value)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise Unreadable(line, f"the character {error.character!r} is not allowed in YAML; remove it") from None
    return value


def _check_depth(text: str) -> bool:
    """Check how deeply the text is nested; returns whether it has references."""
    depth, has_references = 0, False
    for event in yaml.parse(text, Loader=SafeLoader):
        has_references |= isinstance(event, yaml.AliasEvent)
        depth += isinstance(event, _OPENS) - isinstance(event, _CLOSES)
        if depth > DEEPEST:
            line = event.start_mark.line + 1 if event.start_mark else 0
            raise Unreadable(line, f"nested more than {DEEPEST} levels deep; flatten it")
    return has_references


def _check_size(value: object) -> None:
    """Check a value with references as if each were written out. One that contains itself is endlessly deep."""
    number, left = 0, [(value, 0)]
    while left:
        inner, depth = left.pop()
        number += 1
        if depth > DEEPEST or number > MOST_VALUES:
            raise Unreadable(0, f"its references (*name) make more than {DEEPEST} levels or {MOST_VALUES} values")
        if isinstance(inner, dict):
            left += [(item, depth + 1) for item in inner.values()]
        elif isinstance(inner, list):
            left += [(item, depth + 1) for item in inner]
