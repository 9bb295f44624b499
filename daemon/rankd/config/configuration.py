"""A configuration directory as a whole: rankd.toml, queues.yaml, accounts.yaml, priorityclasses.yaml.

It is used as a whole or not at all. A missing file means its defaults. The texts come from the directory, or from the
records of a configuration that came into force.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from rankd.config.accounts import read_accounts
from rankd.config.change import FILES
from rankd.config.named_group import GroupLists, unlisted_groups
from rankd.config.notification_rule import unreachable_targets
from rankd.config.plugin import factor_names, look_again
from rankd.config.priority_classes import read_classes_and_access
from rankd.config.queues import read_queues
from rankd.config.settings import read_settings
from rankd.core.admission.acl import parse_acl
from rankd.core.admission.rights import acl_of, acl_of_qos
from rankd.core.errors import ConfigurationError, Problem
from rankd.core.fairshare.tree import AccountTree
from rankd.core.model.access import AccessLists
from rankd.core.model.association import ROOT, Association
from rankd.core.model.priority_class import PriorityClass
from rankd.core.model.queue import Partition, Queue, walk_queues
from rankd.core.model.setting import Settings

T = TypeVar("T")

_ONE_AT_A_TIME = threading.Lock()
"""msgspec crashes the process if two threads are the first to convert to the same struct (0.22)."""

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
    """The groups of each user who is in at least one."""
    group_names: frozenset[str] = frozenset()
    """All groups of accounts.yaml, including those without users."""
    access: AccessLists = AccessLists()
    warnings: tuple[Problem, ...] = ()


def load_configuration(directory: Path) -> Configuration:
    """Read and check all files.

    Raises:
        ConfigurationError: with the problems of all files.
    """
    texts, unreadable = read_files(directory)
    return read_configuration(str(directory), texts, unreadable)


def read_files(directory: Path) -> tuple[dict[str, str], list[Problem]]:
    """The texts of the existing files, by name, and a problem for each file that can't be read.

    Raises:
        ConfigurationError: the path is not a directory.
    """
    if not directory.is_dir():
        raise ConfigurationError([Problem(path=str(directory), message="is not a directory; give --config DIR")])
    texts: dict[str, str] = {}
    problems = []
    for name in FILES:
        path = directory / name
        try:
            if path.exists():
                texts[name] = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            problems.append(Problem(file=name, path="", message=f"can't be read: {error}"))
    return texts, problems


def read_configuration(directory: str, texts: Mapping[str, str], unreadable: Sequence[Problem] = ()) -> Configuration:
    """Read and check the texts of a directory's files. Also finds plugins that were installed meanwhile.

    Raises:
        ConfigurationError: with the problems of all files, including those that are ``unreadable``.
    """
    with _ONE_AT_A_TIME:
        look_again()
        return _read_configuration(directory, texts, unreadable)


def _read_configuration(directory: str, texts: Mapping[str, str], unreadable: Sequence[Problem]) -> Configuration:
    problems = list(unreadable)
    left_out = {problem.file for problem in unreadable}

    def part(name: str, absent: str, read: Callable[[str], T]) -> T | None:
        return None if name in left_out else _part(texts.get(name, absent), read, problems)

    settings = part("rankd.toml", "", lambda text: read_settings(text, factor_names()))
    queues = part("queues.yaml", _DEFAULT_QUEUES, read_queues)
    accounts = part("accounts.yaml", "", read_accounts)
    classes = part("priorityclasses.yaml", "", read_classes_and_access)
    associations: list[Association] = []
    if accounts is not None:
        associations = _with_default_account(accounts.associations, settings) if settings else accounts.associations
        problems += _tree_problems(associations)
    if problems or settings is None or queues is None or accounts is None or classes is None:
        raise ConfigurationError(problems)
    found = Configuration(
        directory=directory,
        settings=settings,
        partitions=queues.partitions,
        associations=tuple(associations),
        classes=classes.classes,
        groups=accounts.groups,
        group_names=accounts.group_names,
        access=AccessLists(classes=classes.access, accounts=accounts.access),
    )
    warnings = (
        *queues.warnings,
        *unlisted_groups(group_lists(found), accounts.group_names),
        *_unopened_queues(queues.partitions),
        *_administered_by_all(queues.partitions),
        *_closed_defaults(found),
        *unreachable_targets(found.settings.notifications, "rankd.toml"),
    )
    return msgspec.structs.replace(found, warnings=warnings)


def group_lists(configuration: Configuration) -> GroupLists:
    """Where the configuration names groups."""
    return GroupLists(configuration.partitions, configuration.settings, configuration.access)


def _unopened_queues(partitions: tuple[Partition, ...]) -> Iterator[Problem]:
    """Warnings about queues without any list, their own or one above, in partitions where other queues have one."""
    for partition in partitions:
        restricted = any(queue.submitacl or queue.adminacl for queue in walk_queues(partition.root))
        for path in _unopened(partition.root) if restricted else ():
            message = (
                "neither this queue nor one above it has a submitacl, but other queues have, so only administrators "
                "may submit here; add one ('*' is everyone), or ' ' if that is meant"
            )
            yield Problem(file="queues.yaml", path=path, message=message)


def _administered_by_all(partitions: tuple[Partition, ...]) -> Iterator[Problem]:
    """Warnings about queues whose jobs every user may change."""
    for partition in partitions:
        for queue in walk_queues(partition.root):
            if parse_acl(queue.adminacl).everyone:
                message = (
                    "adminacl '*' lets every user hold, change and cancel all jobs here; submitacl lets them submit"
                )
                yield Problem(file="queues.yaml", path=queue.path, message=message)


def _unopened(queue: Queue) -> Iterator[str]:
    if queue.submitacl or queue.adminacl:
        return
    if not queue.queues:
        yield queue.path
    for child in queue.queues:
        yield from _unopened(child)


def _closed_defaults(configuration: Configuration) -> Iterator[Problem]:
    """Warnings about a default QoS or class with an access list: other users' jobs that name none are refused."""
    settings = configuration.settings
    for qos in settings.qos:
        acl = acl_of_qos(qos)
        if qos.name == settings.default_qos and acl is not None and not acl.everyone:
            message = f"'{qos.name}' has an access list: jobs of other users who name no QoS are refused"
            yield Problem(file="rankd.toml", path="default_qos", message=message)
    for given in configuration.classes:
        listed = configuration.access.classes.get(given.name)
        if given.global_default and listed is not None and not acl_of(listed).everyone:
            message = f"'{given.name}' has an access list: jobs of other users who name no class are refused"
            yield Problem(file="priorityclasses.yaml", path="globalDefault", message=message)


def _part(text: str, read: Callable[[str], T], problems: list[Problem]) -> T | None:
    try:
        return read(text)
    except ConfigurationError as error:
        problems += error.problems
    return None


def _with_default_account(associations: list[Association], settings: Settings) -> list[Association]:
    """Add the account for users that are not listed, if it is needed."""
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
        return [problem._replace(file="accounts.yaml") for problem in error.problems]
    return []
