"""A document of ``rankd evaluate`` without names: for a report of a bug that names nobody.

Each name becomes a pseudonym, the same everywhere. Pseudonyms of a kind sort as the names do, since names decide
between equals. So the document gives the same decisions. Only what is known to matter is copied: what a job runs, where
and with which variables, its comment and its name are left out, and a field that this module does not know, too. Names
of resource types, models of devices and factors stay as they are. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rankd.core.model.association import ROOT
from rankd.core.model.job import SINGLETON
from rankd.core.model.queue import ROOT_QUEUE
from rankd.core.placement.constraint import NODE, Requirement, parse_constraints

Row = dict[str, Any]

ANY = "*"
_SYSTEM = "system-"
"""The names of built-in classes begin so."""

_JOB = frozenset(
    {
        *("id", "state", "class_value", "preemption_policy", "urgency", "fixed_priority", "nodes", "min_nodes"),
        *("resources", "exclusive", "time_limit_s", "begin_at", "depends_on", "array", "array_job", "array_task"),
        *("privileged", "held", "submitted_at", "eligible_at", "started_at", "ended_at", "factors", "sequence"),
        *("array_limit", "eligible_tasks", "exit_status", "signal", "cancel_if_unmet"),
    }
)
"""The fields of a job that are copied as they are."""
_QUEUE = frozenset({"parent", "properties", "resources", "maxapplications"})
_LIMIT = frozenset({"maxresources", "maxapplications"})
_PARTITION = frozenset({"nodesortpolicy", "preemption"})


class Pseudonyms:
    """The names of one kind. :meth:`learn` all of them before the first use."""

    def __init__(self, stem: str, kept: Iterable[str] = (), *, ignores_case: bool = False) -> None:
        self._stem = stem
        self._kept = frozenset(kept)
        self._key: Callable[[str], str] = str.lower if ignores_case else str
        self._names: set[str] = set()
        self._made: dict[str, str] | None = None

    def learn(self, name: str | None) -> None:
        """Note a name."""
        if name is not None and name not in self._kept:
            self._names.add(self._key(name))

    def of(self, name: str) -> str:
        """The pseudonym of a name that was learnt."""
        if name in self._kept:
            return name
        if self._made is None:
            width = len(str(len(self._names)))
            self._made = {known: f"{self._stem}{n:0{width}}" for n, known in enumerate(sorted(self._names), start=1)}
        return self._made[self._key(name)]


class _Anonymiser:
    """Goes through the document twice: the first time it only learns names."""

    def __init__(self) -> None:
        self._is_learning = True
        self._kinds = {
            "user": Pseudonyms("user", (ANY, "")),
            "group": Pseudonyms("group", (ANY, "")),
            "account": Pseudonyms("account", (ROOT,)),
            "queue": Pseudonyms("queue", (ROOT_QUEUE,), ignores_case=True),
            "partition": Pseudonyms("partition"),
            "qos": Pseudonyms("qos"),
            "class": Pseudonyms("class"),
            "application": Pseudonyms("application"),
            "job": Pseudonyms("job"),
            "node": Pseudonyms("node"),
            "device": Pseudonyms("device"),
            "label": Pseudonyms("label", (NODE,)),
            "value": Pseudonyms("value", ("",)),
        }

    def document(self, given: Row) -> Row:
        for self._is_learning in (True, False):
            made = self._document(given)
        return made

    def name(self, kind: str, name: str) -> str:
        """The pseudonym; while names are learnt, the name itself."""
        if self._is_learning:
            self._kinds[kind].learn(name)
            return name
        return self._kinds[kind].of(name)

    def _document(self, given: Row) -> Row:
        copied = ("now", "ranked_at", "priority", "scheduling", "unknown_association")
        made = {key: given[key] for key in copied if key in given}
        parts: Mapping[str, Callable[[Any], Any]] = {
            "queues": self._queues,
            "priority_classes": lambda rows: [self._class(row) for row in rows],
            "qos": lambda rows: [self._qos(row) for row in rows],
            "associations": lambda rows: [self._association(row) for row in rows],
            "access": self._access,
            "nodes": lambda rows: [self._node(row) for row in rows],
            "applications": lambda rows: [self._application(row) for row in rows],
            "jobs": lambda rows: [self._job(row) for row in rows],
            "allocations": lambda rows: [self._allocation(row) for row in rows],
            "used": lambda rows: {self._path(path): amounts for path, amounts in rows.items()},
        }
        return made | {key: make(given[key]) for key, make in parts.items() if given.get(key) is not None}

    # --- people -----------------------------------------------------------------------------------------------------

    def _names(self, kind: str, names: Iterable[str]) -> list[str]:
        return [self.name(kind, name) for name in names]

    def _list(self, given: Row) -> Row:
        """An access list."""
        kinds = (("users", "user"), ("groups", "group"))
        return {key: self._names(kind, given[key]) for key, kind in kinds if given.get(key) is not None}

    def _access(self, given: Row) -> Row:
        return {
            "classes": {self._class_name(name): self._list(row) for name, row in given.get("classes", {}).items()},
            "accounts": {
                self.name("account", name): self._list(row) for name, row in given.get("accounts", {}).items()
            },
        }

    def _acl(self, text: str) -> str:
        """Users, a blank, groups; ``*`` is everyone."""
        users, _, groups = text.partition(" ")
        shown = [
            ",".join(self._names(kind, filter(None, names.strip().split(","))))
            for kind, names in (("user", users), ("group", groups))
        ]
        return " ".join(shown) if groups.strip() else shown[0]

    def _association(self, row: Row) -> Row:
        made: Row = {key: row[key] for key in ("shares", "usage", "usage_at", "priority", "default") if key in row}
        for key, kind in (("account", "account"), ("parent", "account"), ("user", "user")):
            if row.get(key) is not None:
                made[key] = self.name(kind, row[key])
        return made

    def _class_name(self, name: str) -> str:
        return name if name.startswith(_SYSTEM) else self.name("class", name)

    def _class(self, row: Row) -> Row:
        kept = {key: row[key] for key in ("value", "global_default", "preemption_policy") if key in row}
        return {"name": self._class_name(row["name"])} | kept

    def _qos(self, row: Row) -> Row:
        kept = {key: row[key] for key in ("priority", "factor", "usage_factor") if key in row}
        return {"name": self.name("qos", row["name"])} | kept | self._list(row)

    # --- queues -----------------------------------------------------------------------------------------------------

    def _path(self, path: str) -> str:
        return ".".join(self.name("queue", part) for part in path.split("."))

    def _queues(self, given: Row) -> Row:
        return {"partitions": [self._partition(row) for row in given.get("partitions", ())]}

    def _partition(self, row: Row) -> Row:
        made: Row = {key: row[key] for key in row.keys() & _PARTITION}
        if row.get("limits"):
            made["limits"] = [self._limit(limit) for limit in row["limits"]]
        return made | {
            "name": self.name("partition", row["name"]),
            "queues": [self._queue(queue) for queue in row.get("queues") or ()],
        }

    def _queue(self, row: Row) -> Row:
        made: Row = {key: row[key] for key in row.keys() & _QUEUE}
        made["name"] = self._path(row["name"])
        for key in ("submitacl", "adminacl"):
            if row.get(key) is not None:
                made[key] = self._acl(row[key])
        if row.get("limits"):
            made["limits"] = [self._limit(limit) for limit in row["limits"]]
        if row.get("childtemplate"):
            made["childtemplate"] = {key: row["childtemplate"][key] for key in row["childtemplate"].keys() & _QUEUE}
        if row.get("queues"):
            made["queues"] = [self._queue(queue) for queue in row["queues"]]
        return made

    def _limit(self, row: Row) -> Row:
        return {key: row[key] for key in row.keys() & _LIMIT} | self._list(row)

    # --- nodes and jobs ---------------------------------------------------------------------------------------------

    def _node(self, row: Row) -> Row:
        made = {key: row[key] for key in ("capacity", "state", "used") if row.get(key) is not None}
        if row.get("partition") is not None:
            made["partition"] = self.name("partition", row["partition"])
        if row.get("devices"):
            made["devices"] = [one | {"id": self.name("device", one["id"])} for one in row["devices"]]
        labels = {self.name("label", key): self.name("value", value) for key, value in row.get("labels", {}).items()}
        return made | {"name": self.name("node", row["name"]), "labels": labels}

    def _application(self, row: Row) -> Row:
        made = {key: row[key] for key in ("created_at", "state", "used", "pending") if key in row}
        return made | self._place(row) | {"id": self.name("application", str(row["id"]))}

    def _place(self, row: Row) -> Row:
        """The queue and the partition of a row."""
        made = {} if row.get("queue") is None else {"queue": self._path(row["queue"])}
        if row.get("partition") is not None:
            made["partition"] = self.name("partition", row["partition"])
        return made

    def _job(self, row: Row) -> Row:
        made = {key: row[key] for key in row.keys() & _JOB} | self._place(row)
        for key in ("user", "account", "qos", "application"):
            if row.get(key) is not None:
                made[key] = self.name(key, str(row[key]))
        if row.get("priority_class") is not None:
            made["priority_class"] = self._class_name(row["priority_class"])
        if row.get("groups"):
            made["groups"] = self._names("group", row["groups"])
        if row.get("constraints"):
            made["constraints"] = ",".join(map(self._term, parse_constraints(row["constraints"])))
        is_single = any(one.get("type") == SINGLETON for one in row.get("depends_on") or ())
        if row.get("name") is not None and (is_single or "depends_on" in row):
            made["name"] = self.name("job", row["name"])
        return made

    def _term(self, term: Requirement) -> str:
        """A term of constraints."""
        kind = "node" if term.key == NODE else "value"
        key = self.name("label", term.key)
        if term.operator in ("exists", "absent"):
            return key if term.operator == "exists" else f"!{key}"
        return f"{key} {term.operator} ({','.join(sorted(self._names(kind, sorted(term.values))))})"

    def _allocation(self, row: Row) -> Row:
        made: Row = {key: row[key] for key in ("job", "resources", "started_at") if key in row}
        if row.get("devices"):
            made["devices"] = {
                self.name("node", node): self._names("device", ids) for node, ids in row["devices"].items()
            }
        return made | {"node": self.name("node", row["node"])}


def anonymised(document: Row) -> Row:
    """The document, as plain values, with pseudonyms in place of names.

    Raises:
        Refused: ``bad_constraints``: a job has constraints that can't be read.
    """
    return _Anonymiser().document(document)
