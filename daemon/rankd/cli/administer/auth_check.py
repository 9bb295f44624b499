"""``rankd auth check``: whether a broker keeps users, nodes and services apart, tried with their credentials."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rankd.cli.common.option import add_place
from rankd.cli.common.place import find
from rankd.core.errors import Refused

if TYPE_CHECKING:
    import argparse

    from rankd.bus.access_check import Found
    from rankd.cli.common.option import Subparsers
    from rankd.client.place import Place
    from rankd.identity.site import Role

CONNECT_TIMEOUT_S = 10.0


class _Given(NamedTuple):
    """A file of credentials, and whose they are."""

    path: Path
    role: Role
    name: str


def add_check(commands: Subparsers) -> None:
    """Add ``auth check``."""
    check = commands.add_parser(
        "check",
        help="test whether a broker keeps users, nodes and services apart",
        description="Connect to a broker with credentials of the services and of users or nodes, and try what each may"
        " do and what it may not. Prints a table; the exit status is 1 if anything is wrong. Nothing is changed.",
        allow_abbrev=False,
    )
    check.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="files of credentials, those of the services among them"
    )
    check.add_argument("--json", action="store_true", help="print JSON")
    check.set_defaults(run=run_check)
    add_place(check)


def run_check(arguments: argparse.Namespace) -> int:
    """Try, and print."""
    from rankd.client.session import run_quietly

    place = find(arguments)
    url = place.need_nats()
    services, others = _sorted(arguments.files)
    results = run_quietly(url, lambda: _check_all(place, url, services, others))
    rows = [(given, found) for given, all_found in results for found in all_found]
    wrong = [found for _, found in rows if not found.is_right]
    if arguments.json:
        from rankd.cli.common.table import print_json

        print_json([_record(given, found) for given, found in rows])
    else:
        _print(rows, len(wrong))
    return 1 if wrong else 0


def _sorted(files: list[Path]) -> tuple[_Given, list[_Given]]:
    """The services' credentials, and those of the others.

    Raises:
        Refused: ``usage``: one kind is missing; ``bad_credentials``: a file does not say whose they are.
    """
    from rankd.identity.site import Role

    given = [_read(path) for path in files]
    services = [one for one in given if one.role is Role.SERVICES]
    others = [one for one in given if one.role in (Role.ADMIN, Role.USER, Role.NODE)]
    if not services or not others:
        message = "give the services' credentials and those of at least one user or node"
        raise Refused("usage", message, "files")
    return services[0], others


def _read(path: Path) -> _Given:
    from rankd.identity.credentials import read_credentials
    from rankd.identity.site import Role

    claims = read_credentials(path).claims()
    try:
        return _Given(path, Role(claims.role or ""), claims.name)
    except ValueError:
        message = f"{path} does not say whose credentials it holds; only those that rankd writes can be checked"
        raise Refused("bad_credentials", message, "files") from None


async def _check_all(
    place: Place, url: str, services: _Given, others: list[_Given]
) -> list[tuple[_Given, list[Found]]]:
    from rankd.bus.access_check import check_access
    from rankd.bus.connection import Bus
    from rankd.identity.credentials import source_of

    def connected(given: _Given) -> Bus:
        source = source_of(given.path)
        return Bus(url, "check", connect_timeout_s=CONNECT_TIMEOUT_S, credentials=source, tls=place.tls)

    results = []
    async with connected(services) as of_services:
        for given in others:
            async with connected(given) as other:
                results.append((given, await check_access(of_services, other, given.role, given.name)))
    return results


def _record(given: _Given, found: Found) -> dict[str, object]:
    return {"role": given.role, "name": given.name, **found._asdict(), "is_right": found.is_right}


def _print(rows: list[tuple[_Given, Found]], wrong: int) -> None:
    from rankd.cli.common.table import Column, print_table

    columns = [Column("ROLE"), Column("NAME"), Column("MAY"), Column("DOES"), Column("RESULT"), Column("SUBJECT")]
    print_table(columns, [_cells(given, found) for given, found in rows])
    print(f"{len(rows)} tried, " + ("all as it must be" if wrong == 0 else f"{wrong} WRONG"))


def _cells(given: _Given, found: Found) -> list[str]:
    may = found.what if found.is_permitted else f"not {found.what}"
    does = "yes" if found.has_worked else "no"
    return [given.role, given.name, may, does, "ok" if found.is_right else "WRONG", found.subject]
