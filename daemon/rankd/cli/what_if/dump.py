"""``rankd dump``: prints the live state, or a past one, as a document of ``rankd evaluate``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rankd.cli.common.document import print_answer
from rankd.cli.common.option import add_asker, add_command, add_place
from rankd.cli.common.place import find
from rankd.client.up_file import UP_FILE

if TYPE_CHECKING:
    import argparse

    from rankd.cli.common.option import Subparsers
    from rankd.config.configuration import Configuration
    from rankd.core.adapter.input import Input
    from rankd.store.engine.reading import Reader
    from rankd.store.look.dump import Dump
    from rankd.store.look.moment import Moment


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    text = "Print the state from which the newest ranking was made, or a past one, in the format of `rankd evaluate`."
    parser = add_command(subparsers, "dump", run, text)
    add_source(parser)
    add_asker(parser)
    add_moment(parser, required=False)
    parser.add_argument("--json", action="store_true", help="print JSON on one line")
    parser.add_argument(
        "--anonymise",
        action="store_true",
        help="with pseudonyms in place of all names, for a report of a bug; decisions on it are the same",
    )


def add_source(parser: argparse.ArgumentParser, *, config: str = "--config") -> None:
    """Options for where the live state is. ``config`` is the flag for the services' configuration."""
    add_place(parser, looks=True)
    parser.add_argument(
        config,
        dest="live_config",
        type=Path,
        metavar="DIR",
        help="the configuration of the services (default: the recorded one, then $RANKD_CONFIG, that of"
        " `rankd up`, the one that ships)",
    )


def add_moment(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """The option for a past instant."""
    parser.add_argument(
        "--at",
        required=required,
        metavar="GENERATION|TIME",
        help="the state as it was: at the cycle that started jobs by this generation (41), or at this time (16:30,"
        " now-1hour, 2030-01-31T08:00:05); if a cycle started jobs within the second from then on, at that cycle",
    )


def instant(text: str | None, now: float) -> str | None:
    """``--at`` without the local time zone: the number of a generation, or UTC seconds behind ``@``.

    Raises:
        Refused: ``usage``: it is neither.
    """
    from rankd.client.instant import parse_time

    if text is None or (text.isascii() and text.isdecimal()):
        return text
    return f"@{parse_time(text, now, 'past')!r}"


def run(arguments: argparse.Namespace) -> int:
    """Read and print."""
    import time

    import msgspec

    from rankd.cli.common.report import fetch_report, over_bus

    arguments.at = instant(arguments.at, time.time())
    if (place := over_bus(arguments)) is not None:
        from rankd.wire.report import ReportRequest

        request = ReportRequest(kind="dump", at=arguments.at)
        document: object = msgspec.Raw(fetch_report(place, arguments, request).strip())
    else:
        document = live_state(arguments)[0].document
    if arguments.anonymise:
        from rankd.core.evaluate.anonymise import anonymised

        document = anonymised(msgspec.json.decode(msgspec.json.encode(document)))
    print_answer(document, compact=arguments.json)
    return 0


def live_state(arguments: argparse.Namespace) -> tuple[Dump, Configuration]:
    """The state of the newest full generation, and its configuration with the inputs from outside applied.

    With ``--at``, that of an earlier instant. Prints what is as it is now.
    """
    from rankd.store.engine.reading import open_for_reading

    connection = open_for_reading(find(arguments).need_database())
    try:
        found = state_at(connection, arguments, _moment(connection, getattr(arguments, "at", None)))
    finally:
        connection.close()
    return found


def state_at(connection: Reader, arguments: argparse.Namespace, moment: Moment | None) -> tuple[Dump, Configuration]:
    """The state at an instant, or at the newest full generation, and its configuration."""
    from rankd.store.engine.reading import tuples
    from rankd.store.look.dump import dump
    from rankd.store.record.adapter import in_force
    from rankd.store.record.user_group import with_recorded_groups

    place = find(arguments)
    configuration, queues = configuration_at(connection, arguments.live_config, place.directory, moment)
    found = dump(connection, configuration, queues, moment)
    configuration = in_force(lambda sql: tuples(connection, sql), configuration).configuration
    configuration = with_recorded_groups(lambda sql: tuples(connection, sql), configuration)
    if found.updated:
        jobs = ", ".join(map(str, found.updated[:20]))
        message = f"updated after generation {found.generation}, and dumped as they are now: jobs {jobs}"
        print(f"rankd: {message}", file=sys.stderr)
    for note in found.notes:
        print(f"rankd: {note}", file=sys.stderr)
    return found, configuration


def _moment(connection: Reader, at: str | None) -> Moment | None:
    from rankd.store.look.moment import find_moment

    return None if at is None else find_moment(connection, at)


def with_live_inputs(arguments: argparse.Namespace, configuration: Configuration) -> Configuration:
    """Another configuration, as what its adapters have in force would change it."""
    from rankd.store.engine.reading import open_for_reading, tuples
    from rankd.store.record.adapter import in_force
    from rankd.store.record.user_group import with_recorded_groups

    connection = open_for_reading(find(arguments).need_database())
    try:
        configuration = in_force(lambda sql: tuples(connection, sql), configuration).configuration
        return with_recorded_groups(lambda sql: tuples(connection, sql), configuration)
    finally:
        connection.close()


def dropped_inputs(
    arguments: argparse.Namespace, live: Configuration, other: Configuration
) -> list[tuple[Input, float]]:
    """Inputs in force of adapters that the other configuration lacks, each with the time of its last reading."""
    from rankd.store.engine.reading import open_for_reading, tuples
    from rankd.store.record.adapter import stored_inputs

    kept = {(adapter.name, adapter.input, adapter.factor) for adapter in other.settings.adapters}
    given = {adapter.factor for adapter in other.settings.adapters if adapter.factor is not None}
    dropped = [one for one in live.settings.adapters if (one.name, one.input, one.factor) not in kept]
    connection = open_for_reading(find(arguments).need_database())
    try:
        stored = stored_inputs(lambda sql: tuples(connection, sql), dropped)
    finally:
        connection.close()
    return [(one.input, one.read_at) for one in stored if one.input.factor not in given]


def configuration_at(
    connection: Reader, named: Path | None, place: Path | None, moment: Moment | None, *, needs_queues: bool = True
) -> tuple[Configuration, object]:
    """The configuration of a moment, or of the newest full generation, and the document of its queues.

    ``needs_queues`` False: without this document, which takes half a second for 2,000 queues.
    """
    from rankd.config.configuration import load_configuration, read_configuration
    from rankd.config.evaluation import parsed_queues, queues_document
    from rankd.store.engine.reading import tuples
    from rankd.store.record.configuration import recorded, recorded_for_ranking

    found = None
    if not named and moment is None:
        found = recorded_for_ranking(lambda sql, *given: tuples(connection, sql, *given))
    elif not named and moment is not None and (number := moment.base["configuration"]) is not None:
        found = recorded(lambda sql, *given: tuples(connection, sql, *given), number)
    if found is not None:
        queues = parsed_queues(found.files.get("queues.yaml")) if needs_queues else None
        return read_configuration(found.directory, found.files), queues
    directory = named or configured_directory(place)
    return load_configuration(directory), queues_document(directory) if needs_queues else None


def configured_directory(place: Path | None) -> Path:
    """The directory of the services' configuration, as far as it is known here."""
    if named := os.environ.get("RANKD_CONFIG"):
        return Path(named)
    if place is not None and (on_record := _on_record(place / UP_FILE)):
        return Path(on_record)
    from rankd.store.schema.migration import shipped

    return Path(shipped("config"))


def _on_record(file: Path) -> str | None:
    import msgspec

    try:
        up = msgspec.json.decode(file.read_bytes(), type=dict[str, msgspec.Raw])
        return msgspec.json.decode(up["config"], type=str)
    except (OSError, KeyError, msgspec.MsgspecError):  # nothing runs here, or an older version
        return None
