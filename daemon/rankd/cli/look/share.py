"""``rankd share``: shares, usage and fair share by account and user, with sshare's options and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankd.cli.common.layout import Field, table_rows
from rankd.cli.common.option import add_asker, add_command, add_output, add_place, names
from rankd.cli.common.record_source import open_source
from rankd.cli.common.session import asker
from rankd.cli.common.table import print_json, print_table, separated
from rankd.core.errors import Refused

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from rankd.cli.common.option import Subparsers
    from rankd.store.engine.reading import Row


def add_parser(subparsers: Subparsers) -> None:
    """Add ``share``."""
    text = "Shares, usage and fair share: all accounts, and your own rows (-a: everybody's)."
    parser = add_command(subparsers, "share", run, text, dash_h=False)
    parser.add_argument("-A", "--accounts", type=names, metavar="ACCOUNTS", help="only these accounts")
    parser.add_argument("-a", "--all", action="store_true", help="rows of all users (default: your own)")
    parser.add_argument("-u", "--users", type=names, metavar="USERS", help="rows of these users")
    parser.add_argument("-U", "--users-only", action="store_true", help="rows of users only, not of accounts")
    parser.add_argument("-l", "--long", action="store_true", help="also show the parent and the generation")
    parser.add_argument("-p", "--parsable", action="store_true", help="end each column with |")
    parser.add_argument("-P", "--parsable2", action="store_true", help="separate columns with |")
    parser.add_argument("-o", "--format", type=names, metavar="COLUMNS", help="columns, such as account,user,fairshare")
    add_output(parser, "-h", "-n")
    add_place(parser, looks=True)
    add_asker(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the tree."""
    rows = tree(open_source(arguments).shares())
    rows = [row for row in rows if _wanted(row, arguments)]
    if arguments.json:
        print_json(rows)
        return 0
    used = _columns(arguments)
    cells = table_rows(used, rows)
    if not arguments.parsable and not arguments.parsable2:
        print_table([field.column() for field in used], cells, header=not arguments.noheader)
        return 0
    header = [] if arguments.noheader else [[field.header for field in used]]
    for line in [*header, *cells]:
        print(separated(cell.strip() for cell in line) + ("|" if arguments.parsable else ""))
    return 0


def tree(rows: list[Row]) -> list[Row]:
    """The rows depth first, users before the accounts below; adds ``depth`` and ``usage_norm``."""
    below: dict[str | None, list[Row]] = {}
    accounts = [row for row in rows if row["user"] is None]
    known = {row["account"] for row in accounts}
    for row in accounts:
        below.setdefault(row["parent"] if row["parent"] in known else None, []).append(row)
    users: dict[str, list[Row]] = {}
    for row in rows:
        if row["user"] is not None:
            users.setdefault(row["account"], []).append(row)
    total = sum(row["usage"] for row in below.get(None, []))
    ordered = list(_walk(None, 0, below, users))
    for row in ordered:
        row["usage_norm"] = row["usage"] / total if total else 0.0
    return ordered


def _walk(
    account: str | None, depth: int, below: dict[str | None, list[Row]], users: dict[str, list[Row]]
) -> Iterator[Row]:
    for row in below.get(account, []):
        yield row | {"depth": depth}
        yield from (user | {"depth": depth + 1} for user in users.get(row["account"], []))
        yield from _walk(row["account"], depth + 1, below, users)


def _wanted(row: Row, arguments: argparse.Namespace) -> bool:
    if arguments.accounts and row["account"] not in arguments.accounts:
        return False
    if row["user"] is None:
        return not arguments.users_only
    return arguments.all or row["user"] in (arguments.users or [asker(arguments).user])


def _number(name: str, header: str, places: int) -> Field:
    def text(row: Row) -> str:
        value = row[name]
        return "" if value is None else f"{float(value):.{places}f}"

    return Field(header, lambda row: row[name], text, numeric=True)


def _shares(row: Row) -> str:
    given: Any = row["shares"]
    return "parent" if given == "parent" else f"{float(given):g}"


def fields() -> dict[str, Field]:
    """The columns by sshare's names, in lower case."""
    return {
        "account": Field("Account", lambda row: " " * row["depth"] + row["account"]),
        "user": Field("User", lambda row: row["user"] or ""),
        "rawshares": Field("RawShares", _shares, numeric=True),
        "normshares": _number("shares_norm", "NormShares", 6),
        "rawusage": _number("usage", "RawUsage", 0),
        "normusage": _number("usage_norm", "NormUsage", 6),
        "effectvusage": _number("usage_effective", "EffectvUsage", 6),
        "fairshare": _number("fairshare", "FairShare", 6),
        "levelfs": _number("level_fairshare", "LevelFS", 6),
        "parent": Field("Parent", lambda row: row["parent"] or ""),
        "generation": Field("Generation", lambda row: str(row["generation"] or ""), numeric=True),
    }


def _columns(arguments: argparse.Namespace) -> list[Field]:
    known = fields()
    wanted = [
        name.lower().partition("%")[0] for name in arguments.format or list(known)[: None if arguments.long else 9]
    ]
    if unknown := [name for name in wanted if name not in known]:
        raise Refused("usage", f"unknown column '{unknown[0]}'; known: {', '.join(known)}", "format")
    return [known[name] for name in wanted]
