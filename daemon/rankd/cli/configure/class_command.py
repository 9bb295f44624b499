"""``rankd class``: shows and checks priority classes. :mod:`rankd.cli.configure.class_change` changes them.

``check`` checks an operation on a table of classes from a file, without a running rankd.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankd.cli.common.document import add_lines, answer_lines, answer_one, decode, print_answer
from rankd.cli.common.layout import Field, column_of, table_rows
from rankd.cli.common.option import add_asker, add_command, add_output, add_place
from rankd.cli.common.screen import print_line
from rankd.cli.configure import class_change
from rankd.core.errors import ConfigurationError, Refused
from rankd.core.near_name import unknown

if TYPE_CHECKING:
    import argparse

    from rankd.cli.common.option import Subparsers
    from rankd.core.admission.class_check import CheckAnswer
    from rankd.store.engine.reading import Row


def add_parser(subparsers: Subparsers) -> None:
    """Add ``class`` and its verbs."""
    parser = add_command(subparsers, "class", run_list, "Priority classes.")
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")
    listed = add_command(verbs, "list", run_list, "All classes, the highest value first.", dash_h=False)
    add_output(listed, "-h")
    show = add_command(verbs, "show", run_show, "Everything about a class.")
    show.add_argument("name", metavar="NAME", help="name of the class")
    show.add_argument("--json", action="store_true", help="print JSON")
    for looking in (listed, show):
        add_place(looking, looks=True)
        add_asker(looking)
    class_change.add_verbs(verbs)
    text = "Say whether a class may be created, updated or deleted, and how the table looks afterwards."
    check = add_command(verbs, "check", run_check, text)
    check.add_argument(
        "file", nargs="?", metavar="FILE", help="existing classes and one operation, as JSON; - is standard input"
    )
    check.add_argument("--json", action="store_true", help="print JSON on one line")
    add_lines(check)


def run_list(arguments: argparse.Namespace) -> int:
    """Print the table."""
    from rankd.cli.common.record_source import open_source
    from rankd.cli.common.table import print_json, print_table

    rows = sorted(open_source(arguments).classes(), key=lambda row: (-row["value"], row["name"]))
    if arguments.json:
        print_json(rows)
        return 0
    fields = [
        column_of("name", "NAME"),
        column_of("value", "VALUE", numeric=True),
        Field("GLOBAL-DEFAULT", lambda row: "yes" if row["global_default"] else "no"),
        column_of("preemption_policy", "PREEMPTIONPOLICY"),
        column_of("description", "DESCRIPTION"),
    ]
    print_table([field.column() for field in fields], table_rows(fields, rows), header=not arguments.noheader)
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    """Print one class."""
    from rankd.cli.common.record_source import open_source

    rows = {row["name"]: row for row in open_source(arguments).classes()}
    if arguments.name not in rows:
        message = unknown("priority class", arguments.name, sorted(rows))
        raise Refused("unknown_priority_class", message, "name", status=404)
    _print_class(rows[arguments.name], as_json=arguments.json)
    return 0


def _listed(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """An access list in words; everything else as it is."""
    if not isinstance(value, dict):
        return value
    return "; ".join(f"{kind} {', '.join(listed)}" for kind, listed in value.items() if listed) or "administrators only"


def _print_class(record: Row, *, as_json: bool) -> None:
    from rankd.cli.common.table import print_json

    if as_json:
        print_json(record)
        return
    width = max(map(len, record))
    for name, value in record.items():
        shown = ("yes" if value else "no") if isinstance(value, bool) else _listed(value)
        print_line(f"{name:<{width}}  {shown}".rstrip())


def run_check(arguments: argparse.Namespace) -> int:
    """Check the operation, and print the answer."""
    if (arguments.file is None) == (arguments.lines is None):
        raise Refused("usage", "give FILE, or --lines FILE", "file")
    if arguments.lines is not None:
        return answer_lines(arguments.lines, _check)
    return answer_one(arguments.file, _check, lambda answer: print_answer(answer, compact=arguments.json))


def _check(data: bytes) -> CheckAnswer:
    from rankd.core.admission.class_check import MalformedAnswer, check

    answer = check(decode(data))
    if isinstance(answer, MalformedAnswer):
        raise ConfigurationError(list(answer.errors))
    return answer
