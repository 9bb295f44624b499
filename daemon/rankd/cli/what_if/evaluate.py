"""``rankd evaluate``: what rankd would decide for a document, without broker and database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rankd.cli.common.document import add_lines, answer_lines, answer_one, print_answer, read_bytes
from rankd.cli.common.option import add_command
from rankd.core.errors import Refused

if TYPE_CHECKING:
    import argparse

    from rankd.cli.common.option import Subparsers
    from rankd.config.evaluation import Evaluator
    from rankd.core.evaluate.diff import Move


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    text = "Read a state as JSON and print everything that rankd would decide on it at that instant."
    parser = add_command(subparsers, "evaluate", run, text)
    parser.add_argument("state", nargs="?", metavar="STATE.json", help="a file with the state; - is standard input")
    parser.add_argument(
        "--config",
        type=Path,
        metavar="DIR",
        help="use sections of this configuration that the state lacks (default: no configuration)",
    )
    parser.add_argument("--diff", metavar="OTHER.json", help="print which ranks differ in this other state")
    parser.add_argument("--json", action="store_true", help="print JSON on one line")
    add_lines(parser)


def run(arguments: argparse.Namespace) -> int:
    """Decide and print."""
    if (arguments.state is None) == (arguments.lines is None):
        raise Refused("usage", "give a state as STATE.json, or --lines FILE", "state")
    evaluator = _evaluator(arguments.config)
    if arguments.lines is not None:
        if arguments.diff is not None:
            raise Refused("usage", "--diff compares two states; it cannot be combined with --lines", "diff")
        return answer_lines(arguments.lines, evaluator.evaluate)
    if arguments.diff is not None:
        return _diff(arguments, evaluator)
    return answer_one(arguments.state, evaluator.evaluate, lambda result: print_answer(result, compact=arguments.json))


def _evaluator(directory: Path | None) -> Evaluator:
    from rankd.config.configuration import load_configuration
    from rankd.config.evaluation import Evaluator

    return Evaluator(None if directory is None else load_configuration(directory))


def _diff(arguments: argparse.Namespace, evaluator: Evaluator) -> int:
    """Compare the two states. ``--diff`` names the later one."""
    from rankd.core.evaluate.diff import moves

    def compared(data: bytes) -> list[Move]:
        return moves(before, evaluator.evaluate(data))

    before = evaluator.evaluate(read_bytes(arguments.state))
    return answer_one(arguments.diff, compared, lambda found: _show(found, compact=arguments.json))


def _show(found: list[Move], *, compact: bool) -> None:
    if compact:
        print_answer(found, compact=True)
    else:
        print_moves(found)


def print_moves(found: list[Move]) -> None:
    """Print the jobs whose rank differs, as a table."""
    from rankd.cli.common.table import Column, print_table

    headers = [Column("JOB"), *(Column(name, numeric=True) for name in ("RANK", "NOW", "MOVES", "PRIORITY", "NOW"))]
    print_table(headers, [_cells(move) for move in found])


def _cells(move: Move) -> list[str]:
    moves = "" if move.change is None else f"{'up' if move.change < 0 else 'down'} {abs(move.change)}"
    numbers = (move.rank_before, move.rank_after, moves, move.priority_before, move.priority_after)
    return [str(move.job), *("-" if number in (None, "") else str(number) for number in numbers)]
