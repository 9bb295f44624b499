"""A configuration directory as a whole: rankd.toml, queues.yaml, accounts.yaml, priorityclasses.yaml.

Taken whole or not at all. A file that is missing means its defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from rankd.config.accounts import read_accounts
from rankd.config.plugin import factor_names
from rankd.config.priority_class import read_priority_classes
from rankd.config.queues import read_queues
from rankd.config.settings import read_settings
from rankd.core.admission.acl import EVERYONE, parse_acl
from rankd.core.errors import ConfigurationError, Problem
from rankd.core.fairshare.tree import AccountTree
from rankd.core.model.association import ROOT, Association
from rankd.core.model.priority_class import PriorityClass
from rankd.core.model.queue import Partition, walk_queues
from rankd.core.model.setting import Settings

T = TypeVar("T")

_DEFAULT_QUEUES = (
    "partitions:\n  - name: default\n    queues:\n      - name: root\n        queues:\n          - name: default\n"
)


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that an administrator decides."""

    directory: str
    settings: Settings
    partitions: tuple[Partition, ...]
    associations: tuple[Association, ...]
    classes: tuple[PriorityClass, ...]
    groups: Mapping[str, tuple[str, ...]] = {}
    """Of each user who is in any."""
    warnings: tuple[Problem, ...] = ()


def load_configuration(directory: Path) -> Configuration:
    """Read and check all files.

    Raises:
        ConfigurationError: with the problems of all files.
    """
    if not directory.is_dir():
        raise ConfigurationError([Problem(path=str(directory), message="is no directory; give --config DIR")])
    problems: list[Problem] = []
    settings = _part(directory, "rankd.toml", "", lambda text: read_settings(text, factor_names()), problems)
    queues = _part(directory, "queues.yaml", _DEFAULT_QUEUES, read_queues, problems)
    accounts = _part(directory, "accounts.yaml", "", read_accounts, problems)
    classes = _part(directory, "priorityclasses.yaml", "", read_priority_classes, problems)
    associations: list[Association] = []
    if accounts is not None:
        associations = _with_default_account(accounts.associations, settings) if settings else accounts.associations
        problems += _tree_problems(associations)
    if problems or settings is None or queues is None or accounts is None or classes is None:
        raise ConfigurationError(problems)
    return Configuration(
        directory=str(directory),
        settings=settings,
        partitions=queues.partitions,
        associations=tuple(associations),
        classes=tuple(classes),
        groups=accounts.groups,
        warnings=(*queues.warnings, *_unknown_groups(queues.partitions, accounts.groups)),
    )


def _unknown_groups(partitions: tuple[Partition, ...], groups: Mapping[str, tuple[str, ...]]) -> Iterator[Problem]:
    """Warnings about groups in access lists and limits that nobody is in."""
    known = {name for names in groups.values() for name in names}
    for partition in partitions:
        for queue in walk_queues(partition.root):
            named = [name for text in (queue.submitacl, queue.adminacl) for name in sorted(parse_acl(text).groups)]
            named += [name for limit in queue.limits for name in limit.groups if name != EVERYONE]
            for name in dict.fromkeys(named):
                if name not in known:
                    message = f"{queue.path} names the group '{name}', which accounts.yaml puts nobody in"
                    yield Problem(file="queues.yaml", path=queue.path, message=message)


def _part(directory: Path, name: str, absent: str, read: Callable[[str], T], problems: list[Problem]) -> T | None:
    path = directory / name
    try:
        return read(path.read_text(encoding="utf-8") if path.exists() else absent)
    except ConfigurationError as error:
        problems += error.problems
    except (OSError, UnicodeDecodeError) as error:
        problems.append(Problem(file=name, path="", message=f"can't be read: {error}"))
    return None


def _with_default_account(associations: list[Association], settings: Settings) -> list[Association]:
    """The account for users whom nobody listed exists where it is needed."""
    account = settings.admission.default_account
    if settings.admission.unknown_association == "refuse" or account == ROOT:
        return associations
    if any(entry.account == account and entry.user is None for entry in associations):
        return associations
    return [*associations, Association(account=account)]


def _tree_problems(associations: list[Association]) -> list[Problem]:
    try:
        AccountTree.build(associations)
    except ConfigurationError as error:
        return [msgspec.structs.replace(problem, file="accounts.yaml") for problem in error.problems]
    return []
