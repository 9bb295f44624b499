"""``rankd.toml``: priorities, scheduling, admission, nodes, QoS.

msgspec checks types and ranges. Values that parse but make no sense (all weights 0, an infinite weight) are refused
here, with the key's name.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

import msgspec

from rankd.config.notification_rule import check_notifications
from rankd.config.toml_lines import syntax_problem, with_lines
from rankd.core.admission.acl import EVERYONE
from rankd.core.admission.node_check import node_capacity
from rankd.core.errors import ConfigurationError, Problem, Refused
from rankd.core.mismatch import mismatches, not_finite
from rankd.core.model.nodelist import unfold
from rankd.core.model.quantity import Amount
from rankd.core.model.setting import AdapterSettings, AdmissionSettings, PrioritySettings, SchedulingSettings, Settings
from rankd.core.near_name import cut, near_name
from rankd.core.placement.backfill_rule import useless_order

FILE = "rankd.toml"
STAFF = ("admins", "admin_groups", "operators", "operator_groups")
"""The lists of ``[admission]`` that give rights."""

T = TypeVar("T", bound=msgspec.Struct)


def read_settings(text: str, factors: Collection[str], file: str = FILE) -> Settings:
    """The settings.

    ``factors`` are the names that plugins provide.

    Raises:
        ConfigurationError: with every problem found, and their lines.
    """
    try:
        return _read(text, factors, file)
    except ConfigurationError as error:
        raise ConfigurationError(with_lines(error.problems, text)) from None


def _read(text: str, factors: Collection[str], file: str) -> Settings:
    try:
        document = _nested(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError([syntax_problem(error, text, file)]) from None
    except RecursionError:
        raise ConfigurationError([Problem(file=file, path="", message="it is nested too deeply; flatten it")]) from None
    try:
        settings = convert(document, Settings, file)
    except ConfigurationError as error:
        named = {problem.path for problem in error.problems}
        more = [problem for problem in _of_the_rest(document, factors, file) if problem.path not in named]
        raise ConfigurationError([*error.problems, *more]) from None
    problems = [
        *check_weights(settings.priority, factors, file),
        *_check_backfill(settings.scheduling, file),
        *_check_qos(settings, file),
        *_check_staff(settings.admission, file),
        *_check_nodes(settings.nodes.known, file),
        *_check_billing(settings.priority, file),
        *check_notifications(settings.notifications, file),
        *_check_adapters(settings, file, range(len(settings.adapters))),
    ]
    if problems:
        raise ConfigurationError(problems)
    return settings


def readable_adapters(text: str) -> list[AdapterSettings]:
    """The readable adapters of a file, whatever other errors it has."""
    try:
        return _readable(tomllib.loads(text)).adapters
    except (tomllib.TOMLDecodeError, RecursionError):
        return []


def _of_the_rest(document: dict[str, object], factors: Collection[str], file: str) -> list[Problem]:
    """The other problems of a file that has errors, except those that only follow from these errors."""
    readable = _readable(document)
    priority = document.get("priority", {})
    has_weights = isinstance(priority, dict) and _takes({"priority": {"weights": priority.get("weights", {})}})
    problems = []
    if has_weights:
        problems += check_weights(readable.priority, factors, file)
    problems += _check_backfill(readable.scheduling, file)
    problems += _check_billing(readable.priority, file)
    problems += check_notifications(readable.notifications, file)
    problems += _check_staff(readable.admission, file)
    problems += _check_nodes(readable.nodes.known, file)
    if len(_kept(document, "qos")) == len(_items(document, "qos")):
        problems += _check_qos(readable, file)
    if has_weights:
        problems += _check_adapters(readable, file, _kept(document, "adapters"))
    return problems


def _readable(document: dict[str, object]) -> Settings:
    """The settings without the values of tables and the items of lists that have errors of their own."""
    kept: dict[str, object] = {}
    for name, value in document.items():
        if isinstance(value, dict):
            kept[name] = {key: one for key, one in value.items() if _takes({name: {key: one}})}
        elif isinstance(value, list):
            kept[name] = [value[place] for place in _kept(document, name)]
        elif _takes({name: value}):
            kept[name] = value
    return msgspec.convert({name: value for name, value in kept.items() if _takes({name: value})}, Settings)


def _items(document: dict[str, object], name: str) -> list[object]:
    items = document.get(name)
    return items if isinstance(items, list) else []


def _kept(document: dict[str, object], name: str) -> list[int]:
    """The positions of a list's items that can be read."""
    return [place for place, one in enumerate(_items(document, name)) if _takes({name: [one]})]


def _takes(document: object) -> bool:
    try:
        msgspec.convert(document, Settings)
    except msgspec.ValidationError:
        return False
    return True


def convert(document: object, kind: type[T], file: str) -> T:
    """A decoded file as a struct. NaN and infinities are refused everywhere.

    Raises:
        ConfigurationError: with every problem found.
    """
    problems = list(not_finite(document, ""))
    try:
        converted = msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        problems += mismatches(document, kind, "") or [_problem(str(error), file)]
    else:
        if not problems:
            return converted
    named = {problem.path: problem._replace(file=file) for problem in reversed(problems)}
    raise ConfigurationError(list(reversed(named.values())))


def _nested(document: dict[str, object]) -> dict[str, object]:
    """Replace ``half_life_s = "none"`` and ``outputs_s = "none"`` by null, which TOML does not have."""
    priority = document.get("priority")
    fairshare = priority.get("fairshare") if isinstance(priority, dict) else None
    for table, key in ((fairshare, "half_life_s"), (document.get("retention"), "outputs_s")):
        if isinstance(table, dict) and table.get(key) == "none":
            table[key] = None
    return document


def _problem(text: str, file: str) -> Problem:
    message, _, place = text.partition(" - at `$")
    return Problem(file=file, path=place.strip(".`"), message=message)


def check_weights(priority: PrioritySettings, factors: Collection[str], file: str = FILE) -> list[Problem]:
    """Weights must be finite, of known factors, and not all 0."""
    problems = []
    for name, weight in priority.weights.items():
        path = f"priority.weights.{name}"
        if name.partition(".")[0] not in factors:
            near = near_name(name, sorted(factors))
            hint = "" if near is None else f" did you mean '{near}'?"
            message = f"unknown factor '{cut(name)}';{hint} known: {', '.join(sorted(factors))}"
            problems.append(Problem(file=file, path=path, message=message))
        if not math.isfinite(weight):
            problems.append(
                Problem(file=file, path=path, message=f"{weight} is not a valid weight; write a finite number")
            )
    if priority.policy == "multifactor" and not any(priority.weights.values()):
        message = 'all weights are 0, so that every job ranks the same; set one, or set policy = "class"'
        problems.append(Problem(file=file, path="priority.weights", message=message))
    return problems


def _check_backfill(scheduling: SchedulingSettings, file: str) -> list[Problem]:
    message = useless_order(scheduling)
    return [] if message is None else [Problem(file=file, path="scheduling.backfill_order", message=message)]


def _check_qos(settings: Settings, file: str) -> list[Problem]:
    names = [qos.name for qos in settings.qos]
    problems = [
        Problem(file=file, path=f"qos[{place}].name", message=f"'{name}' is listed twice")
        for place, name in enumerate(names)
        if name in names[:place]
    ]
    if settings.default_qos not in names:
        message = f"'{settings.default_qos}' is not a QoS; known: {', '.join(names)}"
        problems.append(Problem(file=file, path="default_qos", message=message))
    return problems


def _check_staff(admission: AdmissionSettings, file: str) -> list[Problem]:
    """A star would give everybody the rights of administrators or operators; an empty name is a typo."""
    return [
        Problem(file=file, path=f"admission.{key}", message=f"'{name}' can't be here; write the names one by one")
        for key in STAFF
        for name in getattr(admission, key)
        if name in ("", EVERYONE)
    ]


def _check_nodes(known: Mapping[str, Mapping[str, Amount]], file: str) -> list[Problem]:
    """Names must be lists of nodes, each node only once, with amounts that a node may have."""
    problems, seen = list[str](), set[str]()
    for names, most in known.items():
        try:
            found = unfold(names)
            node_capacity(most)
        except (ValueError, Refused) as error:
            problems.append(f"'{names}': {error}")
            continue
        if not found:
            problems.append(f"'{names}' names no node")
        if twice := seen.intersection(found):
            problems.append(f"'{min(twice)}' is listed twice")
        seen.update(found)
    return [Problem(file=file, path="nodes.known", message=message) for message in problems]


def _check_adapters(settings: Settings, file: str, places: Sequence[int]) -> list[Problem]:
    """Names must be unique. A factor is required if it is the input, not allowed otherwise, and needs a weight.

    ``places``: the position of each adapter in the file.
    """
    problems = []
    names = [adapter.name for adapter in settings.adapters]
    for number, (place, adapter) in enumerate(zip(places, settings.adapters, strict=True)):
        path = f"adapters[{place}]"
        if adapter.name in names[:number]:
            problems.append(Problem(file=file, path=f"{path}.name", message=f"'{adapter.name}' is listed twice"))
        if (adapter.factor is None) == (adapter.input == "factor"):
            message = 'is needed with input = "factor", and only then: name the factor whose values it gives'
            problems.append(Problem(file=file, path=f"{path}.factor", message=message))
        elif adapter.factor is not None and adapter.factor not in settings.priority.weights:
            message = f"the factor '{adapter.factor}' has no weight, so its values would have no effect; give it one"
            problems.append(Problem(file=file, path=f"{path}.factor", message=message))
    return problems


def _check_billing(priority: PrioritySettings, file: str) -> list[Problem]:
    return [
        Problem(
            file=file,
            path=f"priority.fairshare.billing.{kind}",
            message=f"{cost}: write a number of at least 0",
        )
        for kind, cost in priority.fairshare.billing.items()
        if not (math.isfinite(cost) and cost >= 0)
    ]
