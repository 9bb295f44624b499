r"""The file that ``sacctmgr dump`` writes and ``sacctmgr load`` reads.

::

    QOS - 'high':Description='high':Priority=100:UsageFactor=2.000000
    Cluster - 'linux':Fairshare=1:QOS='normal'
    Parent - 'root'
    Account - 'cs':Description='Computer Science':Fairshare=399
    Parent - 'cs'
    User - 'lipari':DefaultAccount='cs':Fairshare=1

Options may have any order. ``#`` begins a comment. ``\`` at the end of a line continues the line, and ``\`` before
another character escapes it. Dumps don't escape quotes in descriptions, so a quote closes only before ``:`` or at the
end of the line. Source: the manual of sacctmgr, "FLAT FILE DUMP AND LOAD", and dumps of Slurm 20.11 to 25.05.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from rankd.core.model.association import ROOT, Association
from rankd.core.model.setting import Qos
from rankd.core.slurm.limit_line import OF_ACCOUNTS, OF_QOS, OF_USERS, limits_in
from rankd.core.slurm.qos import qos_of
from rankd.core.slurm.reading import NOT_SET, Accounting, Entries, Limit, Reading

_LINE = re.compile(r"\s*([A-Za-z]+) *- *")
_END = r"[ \t]*(?=:|\#|$)"
_VALUE = rf"(?:'(?P<single>.*?)'|\"(?P<double>.*?)\"|(?P<plain>(?!['\"])(?:\\.|[^:\#\\])*)){_END}"
_NAME = re.compile(_VALUE)
_OPTION = re.compile(rf"(?P<key>[^:='\"\#]*)=[ \t]*{_VALUE}")
_NEXT = re.compile(r"[^:\#]*")

_WITHOUT_MODEL = re.compile(r"(?:^|,)gres/[^=,/]+$", re.IGNORECASE)

_OBJECTS = {"machine": "cluster", "project": "account"}
"""Other words for the same objects, which Slurm accepts too."""
_SHARES = ("fairshare", "shares")


class _Line(NamedTuple):
    """One line: its number, its kind of object, its name, its options.

    ``options``: values by key in lower case. ``written``: the keys as written, by key in lower case.
    """

    number: int
    kind: str
    name: str
    options: dict[str, str]
    written: dict[str, str]


def parse_dump(text: str, reading: Reading) -> Accounting:
    """The account tree and the QoS of a dump. All errors are added to ``reading``, with their lines."""
    dump = _Dump(reading)
    for line in _lines(text, reading):
        dump.add(line)
    if not dump.cluster:
        reading.refuse(0, "no line `Cluster - 'name'`: this is not a complete dump of sacctmgr")
    found = dump.entries.accounting(dump.cluster, tuple(dump.qos.values()), dump.default_qos)
    return msgspec.structs.replace(
        found,
        user_limits=tuple(dump.user_limits),
        account_limits=tuple(dump.account_limits),
        qos_limits=tuple(dump.qos_limits),
        qos_lists=dump.qos_lists,
        admins=tuple(dict.fromkeys(dump.staff["administrator"])),
        operators=tuple(dict.fromkeys(dump.staff["operator"])),
    )


class _Dump:
    """The content of the lines so far."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.entries = Entries(reading)
        self.cluster = ""
        self.default_qos: str | None = None
        self.qos: dict[str, Qos] = {}
        self.parent = ROOT
        self.user_limits: list[Limit] = []
        self.account_limits: list[Limit] = []
        self.qos_limits: list[Limit] = []
        self.qos_lists: dict[tuple[str, str | None], str] = {}
        self.staff: dict[str, list[str]] = {"administrator": [], "operator": []}

    def add(self, line: _Line) -> None:
        handlers = {
            "cluster": self._cluster,
            "parent": self._parent,
            "account": self._account,
            "user": self._user,
            "qos": self._qos,
        }
        handler = handlers.get(line.kind)
        if handler is None:
            self.reading.refuse(
                line.number, f"'{line.kind}' does not begin a line of a dump; known: {', '.join(handlers)}"
            )
        elif not line.name:
            self.reading.refuse(line.number, f"the {line.kind} has no name")
        else:
            handler(line)

    def _cluster(self, line: _Line) -> None:
        if self.cluster:
            self.reading.refuse(line.number, f"a second cluster '{line.name}'; a dump has one: '{self.cluster}'")
        self.cluster = self.cluster or line.name
        self.default_qos = line.options.get("defaultqos")
        self._list_qos(line, ROOT, None)
        self.reading.lost(line.number, f"cluster '{line.name}'", _rest(line, {"fairshare", "defaultqos", "qos"}))

    def _list_qos(self, line: _Line, account: str, user: str | None) -> None:
        if line.options.get("qos"):
            self.qos_lists.setdefault((account, user), line.options["qos"])

    def _parent(self, line: _Line) -> None:
        if line.name != ROOT and line.name not in self.entries:
            message = f"the parent '{line.name}' is not an account of an earlier line; is a line missing?"
            self.reading.refuse(line.number, message)
        self.parent = line.name

    def _account(self, line: _Line) -> None:
        subject = f"account '{line.name}'"
        if line.name == ROOT:
            self.reading.lost(line.number, subject, _rest(line, {"fairshare"}))
            return
        entry = Association(
            account=line.name,
            parent=self.parent,
            shares=self.reading.shares(line.number, subject, _shares(line)),
            priority=self.reading.whole(line.number, f"priority of {subject}", line.options.get("priority", "")),
        )
        self.entries.add(entry, line.number)
        self._list_qos(line, line.name, None)
        self.account_limits += limits_in(line.options, OF_ACCOUNTS, line.name, line.number)
        self.reading.lost(line.number, subject, _rest(line, {"fairshare", "priority", "qos", *OF_ACCOUNTS}))

    def _user(self, line: _Line) -> None:
        subject = f"user '{line.name}' in '{self.parent}'"
        entry = Association(
            account=self.parent,
            user=line.name,
            shares=self.reading.shares(line.number, subject, _shares(line)),
            priority=self.reading.whole(line.number, f"priority of {subject}", line.options.get("priority", "")),
            default=line.options.get("defaultaccount") == self.parent,
        )
        self.entries.add(entry, line.number, line.options.get("partition", ""))
        self.user_limits += limits_in(line.options, OF_USERS, line.name, line.number)
        self._list_qos(line, self.parent, line.name)
        level = line.options.get("adminlevel", "").lower()
        if level in self.staff:
            self.staff[level].append(line.name)
        used = {"fairshare", "priority", "defaultaccount", "partition", "qos", *OF_USERS}
        used |= {"adminlevel"} if level in self.staff else set()
        self.reading.lost(line.number, subject, _rest(line, used))

    def _qos(self, line: _Line) -> None:
        if line.name in self.qos:
            self.reading.refuse(line.number, f"the QoS '{line.name}' is listed twice")
        self.qos[line.name] = qos_of(
            line.name, line.options.get("priority", ""), line.options.get("usagefactor", ""), line.number, self.reading
        )
        self.qos_limits += limits_in(line.options, OF_QOS, line.name, line.number)
        self.reading.lost(line.number, f"QoS '{line.name}'", _rest(line, {"priority", "usagefactor", *OF_QOS}))


def _shares(line: _Line) -> str:
    return next((line.options[key] for key in _SHARES if key in line.options), "")


def _rest(line: _Line, used: set[str]) -> list[str]:
    """The options that are not used, as written, without those that have no value."""
    known = used | set(_SHARES)
    return [
        f"{line.written[key]}={value}"
        for key, value in line.options.items()
        if key not in known and value.lower() not in NOT_SET
    ]


def _lines(text: str, reading: Reading) -> Iterator[_Line]:
    for number, whole in _joined(text):
        begin = _LINE.match(whole)
        if begin is None:
            reading.refuse(number, f"'{whole.strip()[:60]}' is not a line of a dump; it begins with a word and ' - '")
            continue
        kind = begin.group(1).lower()
        line = _options(whole, begin.end(), number, _OBJECTS.get(kind, kind), reading)
        if line is not None:
            yield line


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are not empty, with their numbers. Continued lines are joined, with the number of the first."""
    first, parts = 0, list[str]()
    for number, line in enumerate(text.split("\n"), start=1):
        first = first or number
        stripped = line.rstrip()
        backslashes = len(stripped) - len(stripped.rstrip("\\"))
        continued = backslashes % 2 == 1
        parts.append(stripped[:-1] if continued else stripped)
        if continued:
            continue
        whole = "".join(parts).lstrip()
        if whole and not whole.startswith("#"):
            yield first, whole
        first, parts = 0, []
    if parts:
        yield first, "".join(parts)


def _options(text: str, at: int, number: int, kind: str, reading: Reading) -> _Line | None:
    name = _NAME.match(text, at)
    if name is None:
        reading.refuse(number, f"the name in '{text[:60]}' has a quote that is not closed; is the file whole?")
        return None
    line = _Line(number, kind, _value(name), {}, {})
    at, last = name.end(), ""
    while at < len(text) and text[at] == ":":
        option = _OPTION.match(text, at + 1)
        if option is None:
            at = _unreadable(text, at + 1, line, reading)
            continue
        last = _add_option(line, option, last)
        at = option.end()
    return line


def _add_option(line: _Line, option: re.Match[str], last: str) -> str:
    """Add an option, and return its key. ``last``: that of the option before.

    Dumps don't quote limits, so the model of ``GrpTRES=gres/gpu:a100=4`` looks like an option of its own.
    """
    key = option.group("key").strip().rstrip("+-").strip()
    if "tres" in last and _WITHOUT_MODEL.search(line.options[last]):
        line.options[last] += f":{key}={_value(option)}"
        return last
    line.options[key.lower()] = _value(option)
    line.written[key.lower()] = key
    return key.lower()


def _unreadable(text: str, at: int, line: _Line, reading: Reading) -> int:
    """Skip a text that is not a valid option, and return the position after it.

    An unclosed quote is refused. Anything else gets a remark.
    """
    skipped = _NEXT.match(text, at)
    end = skipped.end() if skipped else len(text)
    part = text[at:end].strip()
    if "'" in part or '"' in part:
        reading.refuse(line.number, f"'{part[:60]}' has a quote that is not closed; is the file whole?")
    elif part:
        reading.remark(line.number, f"{line.kind} '{line.name}': '{part}' is not an option; it is ignored")
    return end


def _value(match: re.Match[str]) -> str:
    quoted = match.group("single")
    if quoted is None:
        quoted = match.group("double")
    written = match.group("plain").strip() if quoted is None else quoted
    return re.sub(r"\\(.)", r"\1", written) if "\\" in written else written
