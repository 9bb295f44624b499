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


def load_yaml(text: str) -> object:
    """The document's value. No object is ever constructed from a tag.

    Raises:
        yaml.MarkedYAMLError: it is not YAML, or more than one document.
        Unreadable: it is nested too deeply, or has characters that YAML does not allow.
    """
    try:
        _check_depth(text)
        return yaml.load(text, Loader=SafeLoader)  # noqa: S506 - one of the two safe loaders
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise Unreadable(line, f"the character {error.character!r} is not allowed in YAML; remove it") from None


def _check_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=SafeLoader):
        depth += isinstance(event, _OPENS) - isinstance(event, _CLOSES)
        if depth > DEEPEST:
            line = event.start_mark.line + 1 if event.start_mark else 0
            raise Unreadable(line, f"nested more than {DEEPEST} levels deep; flatten it")
