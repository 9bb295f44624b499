"""``rankd import slurm``: makes a configuration directory from the output of Slurm's commands."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from rankd.cli.common.option import add_command
from rankd.core.errors import ConfigurationError, Problem, Refused

if TYPE_CHECKING:
    import argparse

    from rankd.cli.common.option import Subparsers
    from rankd.core.slurm.conversion import Conversion, SourceText

DESCRIPTION = """Make a configuration directory from the output of these commands, in files of any name:
`sacctmgr dump`, `sacctmgr -P show assoc tree`, `sacctmgr -P show qos`, `sshare -a -l -P`, `scontrol show config`,
`scontrol show partition`, `scontrol show node` (or the files of /etc/slurm). What rankd can't express is listed, by
file and line, with what to do."""


def add_parser(subparsers: Subparsers) -> None:
    """Add ``import slurm``."""
    parser = add_command(subparsers, "import", run, "Import another system's configuration.")
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")
    slurm = add_command(verbs, "slurm", run, DESCRIPTION)
    slurm.add_argument(
        "sources",
        nargs="+",
        type=Path,
        metavar="FILE|DIR",
        help="files with the output of Slurm's commands, or a directory with such files",
    )
    slurm.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="the directory to create")
    slurm.add_argument("--force", action="store_true", help="replace existing files")
    slurm.add_argument("--cluster", default="", metavar="NAME", help="the cluster to import, if a table has several")
    slurm.add_argument("-q", "--quiet", action="store_true", help="don't list options without an equivalent")


def run(arguments: argparse.Namespace) -> int:
    """Convert the files, check and write the result, and print the options without an equivalent."""
    from rankd.core.slurm.conversion import convert_slurm
    from rankd.core.slurm.writing import write_files

    output: Path = arguments.output
    if not arguments.force and output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise Refused("usage", f"{output} exists already; name another directory, or give --force", "output")
    conversion = convert_slurm(_sources(arguments.sources), arguments.cluster)
    _write(write_files(conversion), output)
    if not arguments.quiet:
        for remark in conversion.remarks:
            print(remark)
    _summary(conversion, output)
    return 0


def _sources(paths: list[Path]) -> list[SourceText]:
    """The texts of the files. Files of a directory come in the order of their names.

    Raises:
        ConfigurationError: some files can't be read. It lists all of them.
    """
    from rankd.core.slurm.conversion import SourceText

    files = [file for path in paths for file in (_files(path) if path.is_dir() else [path])]
    problems, sources = [], []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            problems.append(Problem(file=str(file), path="", message=f"can't be read: {error}"))
            continue
        sources.append(SourceText(name=file.name, text=text, at=file.stat().st_mtime))
    if not files:
        problems.append(Problem(file=str(paths[0]), path="", message="holds no files"))
    if problems:
        raise ConfigurationError(problems)
    return sources


def _files(directory: Path) -> list[Path]:
    return sorted(file for file in directory.iterdir() if file.is_file() and not file.name.startswith("."))


def _write(files: dict[str, str], output: Path) -> None:
    """Write all files, or none: they are written and checked beside the directory, then moved there."""
    from rankd.config.configuration import load_configuration

    output.absolute().parent.mkdir(parents=True, exist_ok=True)
    made = Path(mkdtemp(prefix=f".{output.name}-", dir=output.absolute().parent))
    try:
        for name, text in files.items():
            (made / name).write_text(text, encoding="utf-8")
        load_configuration(made)
        output.mkdir(exist_ok=True)
        for name in files:
            (made / name).replace(output / name)
    finally:
        shutil.rmtree(made)


def _summary(conversion: Conversion, output: Path) -> None:
    from rankd.core.model.nodelist import unfold
    from rankd.core.slurm.identify import NAMES

    for name, kind in conversion.sources:
        print(f"{name}: taken as the output of `{NAMES[kind]}`")
    accounts = sum(entry.user is None for entry in conversion.associations)
    users = len(conversion.associations) - accounts
    nodes = sum(len(unfold(names)) for names in conversion.known)
    print(
        f"{output}: {accounts} accounts, {users} associations of users, {len(conversion.qos)} QoS,"
        f" {len(conversion.weights)} weights, {len(conversion.queues)} queues, usage of {len(conversion.usage)}"
        f"{f', {nodes} nodes' if nodes else ''};"
        f" {len(conversion.remarks)} remarks"
    )
