"""Options below those of the command line: variables, then the directives of a script.

Variables ``RANKD_SUBMIT_…`` count before those of sbatch (``SBATCH_…``).

Each source is parsed by the options of ``rankd submit`` themselves. ``#RANKD`` lines count before ``#SBATCH`` lines, so
that a script can serve both systems. Warnings go to a function ``say``, and errors of lines are collected, so that a
user sees all of them at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from rankd.client.batch.option import NOT_BELOW, add_job_options
from rankd.client.option_text import in_plain_words, unknown_words
from rankd.core.errors import Refused
from rankd.core.near_name import cut
from rankd.core.submission.directive import Directive, bad_directive, read_directives

Say = Callable[[str], None]
"""Prints a warning."""

PREFIX, PREFIX_OF_SBATCH = "RANKD_SUBMIT_", "SBATCH_"
ON, OFF = frozenset({"1", "yes", "true", "on"}), frozenset({"", "0", "no", "false", "off"})

OF_GPUS = ("gpus", "gpus_per_node", "gpus_per_task")
TOGETHER = (
    ("mem", "mem_per_cpu", "mem_per_gpu"),
    OF_GPUS,
    ("cores", "cpus_per_gpu"),
    ("urgency", "nice"),
)
"""Options that say the same thing in different ways: one of them replaces the others of lower sources."""


ALONE = (("mem", "mem_per_cpu", "mem_per_gpu"), ("cores", "cpus_per_gpu"))
"""Options of which a source may give one, as with sbatch."""


class Layer(NamedTuple):
    """The options of a source, by their names in the namespace, and where it is, for messages."""

    values: Mapping[str, Any]
    where: str


class ScriptLayers(NamedTuple):
    """What the directives of a script say: its layers, the lowest first, and whether it has ``#SBATCH`` lines.

    ``problems``: the errors of its lines, each ``bad_directive``.
    """

    layers: list[Layer]
    is_slurms: bool
    problems: list[Refused]


class _WrongWords(Exception):
    """The message of argparse."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _WrongWords(in_plain_words(message))

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            raise _WrongWords(unknown_words(unknown, self._option_string_actions))
        return found, unknown


def option_parser() -> argparse.ArgumentParser:
    """A parser of all options that a variable or a script may give. It has no defaults."""
    parser = _Parser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    add_job_options(parser)
    return parser


def of_environment(environment: Mapping[str, str], parser: argparse.ArgumentParser, say: Say) -> list[Layer]:
    """The options that variables give, the name in capitals, such as ``RANKD_SUBMIT_MEM_PER_CPU``.

    Raises:
        Refused: ``usage``: a value that the option does not have.
    """
    actions = _actions(parser)
    layers = []
    for name in sorted(environment):
        if not name.startswith(PREFIX):
            continue
        option = f"--{name.removeprefix(PREFIX).lower().replace('_', '-')}"
        if option not in actions or actions[option].dest in NOT_BELOW[:-1]:
            say(f"{cut(name)} has no effect: `rankd submit` takes no {cut(option)} from there")
            continue
        words = _words(option, environment[name], actions)
        layers.append(Layer(_parsed(parser, words, lambda text, name=name: _usage(f"{name}: {text}")), name))
    _check_variables(layers)
    return layers


def of_sbatch_variables(environment: Mapping[str, str], parser: argparse.ArgumentParser, say: Say) -> list[Layer]:
    """The options that sbatch's own variables give, such as ``SBATCH_ACCOUNT``.

    Raises:
        Refused: ``usage``: a value that the option does not have.
    """
    from rankd.core.slurm.sbatch_variable import translate_variable

    layers = []
    for name in sorted(environment):
        if not name.startswith(PREFIX_OF_SBATCH):
            continue
        try:
            words, remark = translate_variable(name, environment[name])
        except ValueError as error:
            raise _usage(str(error)) from None
        if remark:
            say(remark)
        layers.append(Layer(_parsed(parser, words, lambda text, name=name: _usage(f"{name}: {text}")), name))
    _check_variables(layers)
    return layers


def _check_variables(layers: Sequence[Layer]) -> None:
    """Check that no two variables of one kind exclude each other.

    Raises:
        Refused: ``usage``: two do.
    """
    given = {name: layer.where for layer in layers for name in layer.values}
    for names in excluded(given):
        raise _usage(f"{' and '.join(given[name] for name in names)} exclude each other; unset one of them")


def _usage(message: str) -> Refused:
    return Refused("usage", message)


def _words(option: str, value: str, actions: Mapping[str, argparse.Action]) -> list[str]:
    if actions[option].nargs != 0:
        return [f"{option}={value}"]
    word = value.strip().lower()
    if word in ON:
        return [option]
    if word in OFF:
        opposite = f"--no-{option[2:]}"
        return [opposite] if value and opposite in actions else []
    raise Refused("usage", f"'{cut(value)}' for {option} is neither 1 nor 0; write one of them")


def _actions(parser: argparse.ArgumentParser) -> Mapping[str, argparse.Action]:
    return {name: action for action in parser._actions for name in action.option_strings}  # noqa: SLF001 - it has no public list


def of_script(text: str, name: str, parser: argparse.ArgumentParser, say: Say, *, ignores: bool) -> ScriptLayers:
    """The options of a script's directives. ``ignores``: options of sbatch that can't be used are left out.

    Raises:
        Refused: ``bad_directive``: the lines can't be split into words.
    """
    directives = read_directives(text)
    reader = _Reader(name, parser, say, ignores=ignores)
    layers = [layer for kind in ("SBATCH", "RANKD") for layer in reader.of_kind(kind, directives)]
    reader.problems.sort(key=lambda problem: problem.line)
    is_slurms = any(directive.kind == "SBATCH" for directive in directives)
    return ScriptLayers(layers, is_slurms, [bad_directive(*problem) for problem in reader.problems])


class _Problem(NamedTuple):
    line: int
    message: str


class _Reader:
    """Reads the directives of a script, and collects the errors of its lines."""

    def __init__(self, name: str, parser: argparse.ArgumentParser, say: Say, *, ignores: bool) -> None:
        self.problems: list[_Problem] = []
        self._name = name
        self._parser = parser
        self._say = say
        self._ignores = ignores

    def of_kind(self, kind: str, directives: Sequence[Directive]) -> Iterator[Layer]:
        """The layers of one kind of directives."""
        lines: dict[str, int] = {}
        for directive in directives:
            if directive.kind != kind:
                continue
            words = self._translated(directive) if kind == "SBATCH" else directive.words
            try:
                values = _parsed(self._parser, words, _usage)
            except Refused as error:
                self.problems.append(_Problem(directive.line, error.message))
                continue
            for option in NOT_BELOW:
                if option in values:
                    message = f"--{dashed(option)} is for the command line only; leave it out"
                    self.problems.append(_Problem(directive.line, message))
            self._check_alone(values, directive.line, lines)
            yield Layer(values, f"{self._name} line {directive.line}")

    def _check_alone(self, values: Mapping[str, Any], line: int, lines: dict[str, int]) -> None:
        """Check that no earlier line of this kind has an option that excludes one of this line. ``lines`` has them."""
        for names in excluded([*values, *lines]):
            for name in (name for name in names if name in values):
                for other in (other for other in names if other in lines and other not in values):
                    message = f"--{dashed(name)} and --{dashed(other)} of line {lines[other]} exclude each other"
                    self.problems.append(_Problem(line, f"{message}; leave one of them out"))
        lines |= dict.fromkeys(values, line)

    def _translated(self, directive: Directive) -> list[str]:
        """The words of ``rankd submit`` for a line of sbatch's options."""
        from rankd.core.slurm.sbatch_option import translate

        line = directive.line
        try:
            words, remarks, refused = translate(directive.words)
        except ValueError as error:
            self._leave_out(line, "the line", "", str(error))
            return []
        for remark in remarks:
            self._say(f"line {line}: {remark}")
        for option, why in refused:
            self._leave_out(line, "it", f" --{option}" if option else "", why)
        return words

    def _leave_out(self, line: int, what: str, option: str, why: str) -> None:
        if self._ignores:
            self._say(f"line {line}:{option or (' an option' if what == 'it' else ' ' + what)} is left out: {why}")
        else:
            self.problems.append(_Problem(line, f"#SBATCH{option}: {why}; --ignore-unknown leaves {what} out"))


def _parsed(parser: argparse.ArgumentParser, words: Sequence[str], refusal: Any) -> Mapping[str, Any]:  # noqa: ANN401 - a function
    try:
        values = vars(parser.parse_args(list(words)))
    except _WrongWords as error:
        raise refusal(str(error)) from None
    return {name: value for name, value in values.items() if value != []}


def merged(arguments: argparse.Namespace, layers: Sequence[Layer]) -> Mapping[str, str]:
    """Fill in what the command line leaves open. ``layers``: the lowest first. Returns where each value is from."""
    found: dict[str, Any] = {}
    where: dict[str, str] = {}
    for layer in layers:
        for name in layer.values:
            for other in others(name):
                found.pop(other, None)
        for name, value in layer.values.items():
            found[name] = [*found.get(name, ()), *value] if isinstance(value, list) else value
            where[name] = layer.where
    taken = {name for name, value in vars(arguments).items() if not _is_open(value)}
    _leave_out_gpus(found, {name: value for name, value in vars(arguments).items() if name in taken})
    for name, value in found.items():
        if isinstance(value, list):
            setattr(arguments, name, [*value, *getattr(arguments, name)])
        elif name not in taken and taken.isdisjoint(others(name)):
            setattr(arguments, name, value)
    return {name: at for name, at in where.items() if name in found and name not in taken}


def _leave_out_gpus(found: dict[str, Any], taken: Mapping[str, Any]) -> None:
    """GPUs of the command line replace those of lower sources, also if one of them says ``--gres``."""
    if taken.keys() & set(OF_GPUS) and "gres" in found:
        found["gres"] = ",".join(item for item in str(found["gres"]).split(",") if not _is_gpu(item)) or None
    if any(map(_is_gpu, str(taken.get("gres") or "").split(","))):
        for name in OF_GPUS:
            found.pop(name, None)


def _is_gpu(item: str) -> bool:
    return item.strip().removeprefix("gres/").split(":")[0] == "gpu"


def excluded(given: Collection[str]) -> list[list[str]]:
    """The groups of options of one source that exclude each other, of which more than one is given.

    >>> excluded(["time", "mem_per_cpu", "mem"])
    [['mem', 'mem_per_cpu']]
    """
    found = ([name for name in group if name in given] for group in ALONE)
    return [names for names in found if len(names) > 1]


def others(name: str) -> list[str]:
    """The options that say the same as this one in another way."""
    return [other for group in TOGETHER if name in group for other in group if other != name]


def dashed(name: str) -> str:
    """An option as it is typed.

    >>> dashed("cores"), dashed("mem_per_cpu")
    ('cpus-per-task', 'mem-per-cpu')
    """
    return "cpus-per-task" if name == "cores" else name.replace("_", "-")


def _is_open(value: object) -> bool:
    return value is None or value is False or value == []
