"""``rankd config check``: all errors in a configuration directory, or in texts of queues.yaml.

``rankd config history`` is :mod:`rankd.cli.configure.config_history`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankd.cli.common.document import BAD_DOCUMENT, add_lines, answer_lines, decode, print_answer
from rankd.cli.common.option import add_command
from rankd.cli.configure.config_history import add_history
from rankd.core.errors import ConfigurationError, Problem, RankdError, Refused

if TYPE_CHECKING:
    import argparse

    from rankd.cli.common.option import Subparsers
    from rankd.config.queues import QueuesChecked
    from rankd.core.model.node import Node

KEY = "queues_yaml"


def add_parser(subparsers: Subparsers) -> None:
    """Add ``config check``."""
    parser = add_command(subparsers, "config", run, "The configuration.")
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")
    text = "Check a configuration directory and print every error, with file and line."
    check = add_command(verbs, "check", run, text)
    check.add_argument(
        "directory",
        nargs="?",
        type=Path,
        metavar="DIR",
        help="the directory (default: $RANKD_CONFIG, then config, then the one that comes with rankd)",
    )
    check.add_argument("--json", action="store_true", help="print JSON")
    add_lines(check)
    add_history(verbs)


def run(arguments: argparse.Namespace) -> int:
    """Check and print."""
    if arguments.lines is not None:
        if arguments.directory is not None:
            raise Refused("usage", "give DIR, or --lines FILE", "directory")
        return answer_lines(arguments.lines, _check_text)
    directory = arguments.directory or _default_directory()
    errors, warnings, costs = _check_directory(directory)
    errors, warnings = (_located(directory, problems) for problems in (errors, warnings))
    if arguments.json:
        rows = {"valid": not errors, "errors": _rows(errors), "warnings": _rows(warnings)}
        print_answer(rows, compact=False)
    else:
        for problem in errors:
            print(problem)
        for problem in warnings:
            print(f"warning: {problem}")
        print(f"{directory}: {_count(errors, 'error')}, {_count(warnings, 'warning')}")
        if costs:
            print(costs)
    return BAD_DOCUMENT if errors else 0


def _check_text(line: bytes) -> QueuesChecked:
    from rankd.config.queues import check_queues

    document = decode(line)
    if not isinstance(document, dict) or set(document) != {KEY} or not isinstance(document[KEY], str):
        raise ConfigurationError([Problem(path="$", message=f'give {{"{KEY}": "the text of the file"}}, nothing else')])
    return check_queues(document[KEY])


def _check_directory(directory: Path) -> tuple[list[Problem], list[Problem], str]:
    """Errors and warnings, and a line: what nodes cost, or what was not checked. A plugin may be an error, too."""
    from rankd.config.about_nodes import about_nodes, costs_of, known_nodes, unchecked
    from rankd.config.checked import load_checked
    from rankd.config.configuration import group_lists
    from rankd.config.named_group import missing_groups
    from rankd.config.other_writer import other_writers

    try:
        configuration = load_checked(directory)
    except ConfigurationError as error:
        return error.problems, [], ""
    nodes = _registered_nodes() or known_nodes(configuration)
    missing = missing_groups(group_lists(configuration), configuration.group_names, _has_group)
    warnings = [*configuration.warnings, *missing, *about_nodes(configuration, nodes), *other_writers(directory)]
    return [], warnings, costs_of(configuration, nodes) or unchecked(configuration, nodes)


def _located(directory: Path, problems: list[Problem]) -> list[Problem]:
    """The problems, those of rankd.toml with the lines of the keys that they are about."""
    from rankd.config.configuration import read_files
    from rankd.config.settings import FILE
    from rankd.config.toml_lines import with_lines

    own = [problem for problem in problems if problem.file == FILE and problem.path and not problem.line]
    if not own:
        return problems
    text = read_files(directory)[0].get(FILE, "")
    lines = dict(zip(own, with_lines(own, text), strict=True))
    return [lines.get(problem, problem) for problem in problems]


def _registered_nodes() -> list[Node]:
    """The nodes of the rankd that is found here; none if there is no database to read."""
    from rankd.client.place import Given, locate
    from rankd.store.engine.reading import ReadError, open_for_reading
    from rankd.store.record.all_nodes import all_nodes

    try:
        place = locate(Given())
        if place.database is None or not Path(place.database).is_file():
            return []
        return all_nodes(open_for_reading(place.database))
    except (RankdError, ReadError):
        return []


def _has_group(name: str) -> bool:
    import grp

    try:
        grp.getgrnam(name)
    except (KeyError, ValueError):
        return False
    return True


def _default_directory() -> Path:
    if named := os.environ.get("RANKD_CONFIG"):
        return Path(named)
    if Path("config").is_dir():
        return Path("config")
    from rankd.store.schema.migration import shipped

    return Path(shipped("config"))


def _rows(problems: list[Problem]) -> list[dict[str, Any]]:
    names = ("file", "path", "line", "message", "code")
    rows = ({name: getattr(problem, name, "") for name in names} for problem in problems)
    return [{name: value for name, value in row.items() if name != "code" or value} for row in rows]


def _count(problems: list[Problem], what: str) -> str:
    return f"{len(problems) or 'no'} {what}{'' if len(problems) == 1 else 's'}"
