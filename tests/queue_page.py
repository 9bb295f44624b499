"""The results on docs/how-to/queues.md, computed from the tree and the jobs that stand there.

``python tests/queue_page.py`` writes them anew.
"""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

import msgspec
import yaml

from rankd.config.evaluation import Evaluator

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "queues.md"

_SETTING = re.compile(r"`(?P<queue>[\w.]+)` `(?P<key>[\w.]+): (?P<value>[^`]+)`")


def block(text: str, language: str) -> str:
    """The first code block of a language."""
    return re.search(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)[1]


def evaluated(queues: object, state: dict) -> dict:
    """What is decided on the page's state; the jobs were submitted one second after the other."""
    jobs = [{"submitted_at": float(at), **job} for at, job in enumerate(state["jobs"])]
    nodes = [{"name": "n1", "capacity": {"vcore": 16}}]
    document = {**state, "now": 1000.0, "priority": {"policy": "class"}, "queues": queues, "nodes": nodes, "jobs": jobs}
    return msgspec.to_builtins(Evaluator().evaluate(json.dumps(document).encode()))


def find(queues: dict, path: str) -> dict:
    """The queue of a path in the document of queues.yaml."""
    queue = {"queues": queues["partitions"][0]["queues"]}
    for name in path.split("."):
        queue = next(child for child in queue["queues"] if child["name"] == name)
    return queue


def tree(result: dict, state: dict) -> str:
    """Queues in their parents' order, with what each shows, and the jobs inside in theirs."""
    rows = {row["path"]: row for row in result["queues"]}
    priorities = {job["id"]: job["priority"] for job in result["jobs"]}
    queues_of = {job["id"]: job["queue"] for job in state["jobs"]}
    ranks = {job: rank for rank, job in enumerate(result["ranking"], start=1)}
    lines = ["root"]

    def draw(path: str, indent: str) -> None:
        children = result["queue_order"].get(path) or [job for job in result["ranking"] if queues_of[job] == path]
        for place, child in enumerate(children, start=1):
            is_last = place == len(children)
            branch = f"{indent}{'└─' if is_last else '├─'} "
            if child in rows:
                row = rows[child]
                how = f"fenced at {row['offset']}" if row["policy"] == "fence" else f"offset {row['offset']:+d}"
                note = how if row["policy"] == "fence" or row["offset"] else ""
                shown = f"{branch}{child.rpartition('.')[2]}".ljust(22) + f"shows {row['priority']:>5}   {note}"
                lines.append(shown.rstrip())
                draw(child, indent + ("   " if is_last else "│  "))
            else:
                lines.append(f"{branch}{child}".ljust(22) + f"      {priorities[child]:>5}   {ordinal(ranks[child])}")

    draw("root", "")
    return "\n".join(["```text", *lines, "```"])


def ordinal(number: int) -> str:
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number, 'th') }"


def variations(table: str, queues: dict, state: dict) -> str:
    """The table with its second column filled in."""
    header, *rows = table.strip().splitlines()
    lines = [header]
    for row in rows:
        first = row.split("|")[1].strip()
        setting = _SETTING.search(first)
        changed = copy.deepcopy(queues)
        if setting:
            value = yaml.safe_load(setting["value"])
            find(changed, setting["queue"]).setdefault("properties", {})[setting["key"]] = value
        order = " · ".join(evaluated(changed, state)["ranking"])
        lines.append(row if first.startswith("---") else f"| {first} | {order} |")
    return "\n".join(lines)


def written(text: str) -> str:
    """The page as it must be."""
    queues, state = yaml.safe_load(block(text, "yaml")), json.loads(block(text, "json"))

    def filled(match: re.Match[str]) -> str:
        name, body = match["name"], match["body"]
        made = tree(evaluated(queues, state), state) if name == "tree" else variations(body, queues, state)
        return f"<!-- {name} -->\n{made}\n<!-- end -->"

    return re.sub(r"<!-- (?P<name>\w+) -->\n(?P<body>.*?)<!-- end -->", filled, text, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
