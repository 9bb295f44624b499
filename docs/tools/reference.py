"""Fills the generated parts of the reference pages: options from the parsers, settings from their structs.

A part lies between ``<!-- generated: NAME -->`` and ``<!-- end -->``; the rest of the page is written by hand. NAME is
a command of the command line (``submit``), ``places`` and ``askers`` (options that commands share), ``metrics of`` and
who exports them (``metrics of intake``), or a struct of ``rankd.core.model.setting`` with the prefix of its keys
(``Qos qos.``). ``make reference`` runs this; a test fails
while a page holds anything else than what the code says. ``schema.json`` has the JSON Schemas of all messages.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import itertools
import platform
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

import msgspec

from rankd.cli import main
from rankd.core.metric.catalog import METRICS
from rankd.core.model import setting
from rankd.wire.schema import document

REFERENCE = Path(__file__).parents[1] / "reference"
PAGES = (REFERENCE / "cli.md", REFERENCE / "configuration.md", REFERENCE / "metrics.md")
SCHEMAS = REFERENCE / "schema.json"

PLACES, ASKERS = "where rankd is", "who asks"
SHARED = {PLACES: "[where rankd is](#where-rankd-is)", ASKERS: "[who asks](#who-asks)"}
"""Groups of options that have a section of their own, by the beginning of their title."""

_PART = re.compile(r"(<!-- generated: (?P<name>[^>]+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str) -> str:
    """A page's text with every generated part as the code has it now."""
    return _PART.sub(lambda match: f"{match[1]}{generated(match['name'])}\n{match[3]}", text)


def generated(name: str) -> str:
    """The text of one part."""
    if name in main.COMMANDS:
        return command(name)
    if name in ("places", "askers"):
        return _table("option", _shared_options(PLACES if name == "places" else ASKERS))
    if name.startswith("metrics of "):
        return metrics(name.removeprefix("metrics of "))
    struct, _, prefix = name.partition(" ")
    return "\n".join(["| key | default | values | meaning |", "|---|---|---|---|", *settings(struct, prefix)])


class Parsed(NamedTuple):
    """A parser of a command or of one of its subcommands."""

    words: str
    parser: argparse.ArgumentParser


def parsers(name: str) -> list[Parsed]:
    """The parsers of a command; of one with subcommands, theirs."""
    found = main._parser(name)._subparsers
    return list(_leaves(name, found._group_actions[0].choices[name])) if found else []


def _leaves(words: str, parser: argparse.ArgumentParser) -> Iterator[Parsed]:
    if parser._subparsers is None:
        yield Parsed(words, parser)
        return
    for name, inner in parser._subparsers._group_actions[0].choices.items():
        yield from _leaves(f"{words} {name}", inner)


def command(name: str) -> str:
    """What a command does, how it is written, and its own options."""
    return "\n\n".join(_one(found) for found in parsers(name))


def _one(found: Parsed) -> str:
    own, shared = _split(found.parser)
    parts = [f"**`rankd {_usage(found)}`** {_sentence(found.parser.description or '')}"]
    if own:
        parts.append(_table("option", [_row(action) for action in own]))
    if shared:
        parts.append(f"Also: {', '.join(shared)}.")
    return "\n\n".join(parts)


def _usage(found: Parsed) -> str:
    positional = [_value(action) for action in found.parser._actions if not action.option_strings]
    return " ".join([found.words, "[OPTION …]", *positional])


def _split(parser: argparse.ArgumentParser) -> tuple[list[argparse.Action], list[str]]:
    """A parser's own options and arguments, and links to the sections of those that it shares."""
    own: list[argparse.Action] = []
    shared: list[str] = []
    for group in parser._action_groups:
        title = next((title for title in SHARED if (group.title or "").startswith(title)), None)
        if title is None:
            own += [one for one in group._group_actions if one.help != argparse.SUPPRESS and one.dest != "help"]
        else:
            shared.append(SHARED[title])
    return own, shared


def _shared_options(title: str) -> list[str]:
    for group in parsers("submit" if title == PLACES else "hold")[0].parser._action_groups:
        if (group.title or "").startswith(title):
            return [_row(action) for action in group._group_actions]
    raise LookupError(title)


def _table(first: str, rows: list[str]) -> str:
    return "\n".join([f"| {first} | does |", "|---|---|", *rows])


def _row(action: argparse.Action) -> str:
    value = _value(action)
    names = ", ".join(f"`{name}`" for name in action.option_strings)
    if action.option_strings and value:
        names = f"{names[:-1]} {value}`"
    return f"| {_cell(names or f'`{value}`')} | {_cell(_sentence(help_of(action)))} |"


def _value(action: argparse.Action) -> str:
    """How an argument, or the value of an option, is written."""
    if action.nargs == 0:
        return ""
    word = "|".join(map(str, action.choices)) if action.choices else str(action.metavar or action.dest.upper())
    if action.nargs == argparse.REMAINDER:
        return word if "-- " in word else f"-- {word}"
    return {"?": f"[{word}]", "*": f"[{word} …]", "+": f"{word} …"}.get(str(action.nargs), word)


def help_of(action: argparse.Action) -> str:
    """The help text, with the default where the text does not give it."""
    text = (action.help or "") % {"default": action.default, "prog": "rankd"}
    of_host = (platform.node().partition(".")[0], argparse.SUPPRESS)
    shown = action.default not in (None, False, True, "", [], {}, 0, *of_host)
    return f"{text} (default: {action.default})" if shown and "default" not in text.lower() else text


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return f"{text[:1].upper()}{text[1:]}" + "." * (not text.endswith((".", "…")))


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def metrics(exporter: str) -> str:
    """The metrics that one process exports."""
    rows = [
        f"| `{one.name}` | {one.kind} | {', '.join(f'`{name}`' for name in one.labels)} | {_cell(one.text)} |"
        for one in METRICS.values()
        if one.by == exporter
    ]
    return "\n".join(["| metric | type | labels | meaning |", "|---|---|---|---|", *rows])


def settings(struct: str, prefix: str = "") -> Iterator[str]:
    """The rows of a struct's keys; those of a struct inside come in its place."""
    kind = getattr(setting, struct)  # it imports those of service_setting
    texts = field_texts(kind)
    for field in msgspec.structs.fields(kind):
        inner = field.type
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            yield from settings(inner.__name__, f"{prefix}{field.name}.")
        elif field.name in texts:
            cells = (_shown_default(field), _values(field), texts[field.name])
            yield f"| `{prefix}{field.name}` | {' | '.join(map(_cell, cells))} |"


def field_texts(kind: type) -> dict[str, str]:
    """The text below each field of a struct, by the field's name."""
    body = ast.parse(inspect.getsource(kind)).body[0].body
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }


def _shown_default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "needed"
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    if value == setting.DEFAULT_WEIGHTS:
        return "see below"
    return "none" if value is None else f"`{_toml(value)}`"


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + " }" if value else "{}"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else msgspec.json.encode(value).decode()


def _values(field: msgspec.structs.FieldInfo) -> str:
    """Which values a field allows: ``whole number, 16 to 4194304``; text for null where null is no default."""
    union = get_args(field.type) if type(None) in get_args(field.type) else (field.type,)
    shown = [_range(part) for part in union if part is not type(None)]
    return ", ".join(shown if len(shown) == len(union) or field.default is None else [*shown, '`"none"`'])


def _range(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(annotation))
    limits = annotation.__metadata__[0] if hasattr(annotation, "__metadata__") else None
    plain = getattr(annotation, "__origin__", annotation) if limits else get_origin(annotation) or annotation
    name = {int: "whole number", float: "number", bool: "true, false", str: "text", dict: "table", list: "list"}[plain]
    return f"{name}{_limits(limits)}" if limits else name


def _limits(limits: msgspec.Meta) -> str:
    if limits.pattern == "^/":
        return ", an absolute path"
    if limits.pattern:
        return " of `A-Z a-z 0-9 _ . -`, at most 63"
    if limits.gt is not None:
        return f" > {limits.gt}"
    return f", {limits.ge} to {limits.le}" if limits.le is not None else f" ≥ {limits.ge}"


def schemas() -> str:
    """The JSON Schemas of all requests and replies, as ``schema.show`` answers them."""
    return msgspec.json.format(msgspec.json.encode(document()), indent=2).decode() + "\n"


if __name__ == "__main__":
    SCHEMAS.write_text(schemas(), encoding="utf-8")
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
