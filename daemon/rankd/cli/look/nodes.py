"""``rankd nodes``: nodes by partition and state, with sinfo's options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankd.cli.common.amount import shown_gres
from rankd.cli.common.duration import shown_time
from rankd.cli.common.freshness import say
from rankd.cli.common.layout import Field, column_of, formatted, letters_of, table_rows
from rankd.cli.common.option import add_asker, add_command, add_output, add_place, names
from rankd.cli.common.record_source import open_source
from rankd.cli.common.table import print_json, print_table
from rankd.cli.look.device_line import GPUS, note_held, show_devices
from rankd.core.errors import Refused
from rankd.core.model.amount_text import shown_bytes
from rankd.core.model.nodelist import fold, unfold
from rankd.core.near_name import cut, near_name

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from rankd.cli.common.option import Subparsers
    from rankd.store.engine.reading import Row

_APART = frozenset("GfEuk")
"""Fields that are texts. If a format names one, nodes with different texts have rows of their own, as in sinfo."""


def add_parser(subparsers: Subparsers) -> None:
    """Add ``nodes``."""
    parser = add_command(subparsers, "nodes", run, "Nodes by partition and state, and how full they are.", dash_h=False)
    parser.add_argument("-N", "--node", action="store_true", help="one line per node")
    parser.add_argument("-l", "--long", action="store_true", help="more columns")
    parser.add_argument(
        "-s", "--summarize", action="store_true", help="one line per partition: allocated/idle/other/total nodes"
    )
    parser.add_argument(
        "-R", "--list-reasons", action="store_true", help="only nodes that accept no jobs, with the reason"
    )
    parser.add_argument(
        "--devices", action="store_true", help="the devices of each node, such as GPUs, and the jobs that hold them"
    )
    parser.add_argument("-n", "--nodes", metavar="NODES", help="only these nodes, such as n[01-08]")
    parser.add_argument("-p", "--partition", type=names, metavar="PARTITIONS", help="only nodes of these partitions")
    parser.add_argument(
        "-t", "--states", type=names, metavar="STATES", help="only nodes in these states, such as idle,mixed"
    )
    parser.add_argument("-o", "--format", metavar="SPEC", help="columns, such as '%%P %%t %%N'; see the reference")
    add_output(parser, "-h")
    add_place(parser, looks=True)
    add_asker(parser)


def shown_state(node: Row) -> str:
    """The state in sinfo's words: idle, mixed or allocated if it is up; draining, and drained once it is empty."""
    if node["state"] == "draining":
        return "draining" if node["allocations"] else "drained"
    if node["state"] != "up":
        return str(node["state"])
    if not node["allocations"]:
        return "idle"
    return "allocated" if node["allocated"].get("vcore", 0) >= node["capacity"].get("vcore", 0) else "mixed"


def run(arguments: argparse.Namespace) -> int:
    """Print the selected nodes."""
    source = open_source(arguments)
    found = source.nodes()
    say(source.known.of_nodes(node["name"] for node in found))
    for node in found:
        node["shown_state"] = shown_state(node)
    check_names(arguments.nodes, {node["name"] for node in found})
    rows = [node for node in found if _wanted(node, arguments)]
    if arguments.devices:
        return show_devices(rows, source.devices(), as_json=arguments.json, header=not arguments.noheader)
    if arguments.json:
        print_json(rows)
        return 0
    one_each = arguments.node or arguments.list_reasons
    known = fields()
    apart = [known[letter] for letter in sorted(letters_of(arguments.format or "") & _APART)]
    lines = _per_node(rows) if one_each else _grouped(rows, apart, by_state=not arguments.summarize)
    if arguments.format:
        print("\n".join(formatted(arguments.format, known, lines, header=not arguments.noheader)))
        return 0
    used = [known[letter] for letter in _letters(arguments) + _about_devices(arguments, rows)]
    if not arguments.list_reasons and any(node["capacity"].get("gpu") or node["confinement"] for node in rows):
        note_held(rows, source.devices())
        used.insert(used.index(known["N"]) if not arguments.node else len(used), GPUS)
    print_table([field.column() for field in used], table_rows(used, lines), header=not arguments.noheader)
    return 0


def check_names(nodes: str | None, known: set[str]) -> None:
    """Check that every node that was named is there.

    Raises:
        Refused: ``unknown_node``.
    """
    for name in unfold(nodes) if nodes else ():
        if name not in known:
            near = near_name(name, sorted(known))
            hint = f"did you mean '{near}'?" if near else "`rankd nodes -N` lists them"
            raise Refused("unknown_node", f"there is no node '{cut(name)}'; {hint}", "nodes", status=404)


def _wanted(node: Row, arguments: argparse.Namespace) -> bool:
    return (
        (not arguments.partition or node["partition"] in arguments.partition)
        and (not arguments.states or node["shown_state"] in {state.lower() for state in arguments.states})
        and (not arguments.nodes or node["name"] in unfold(arguments.nodes))
        and not (arguments.list_reasons and node["state"] == "up")
    )


def _letters(arguments: argparse.Namespace) -> str:
    if arguments.list_reasons and not arguments.node:
        return "EuHtN"
    if arguments.summarize:
        return "PalFN"
    if arguments.node:
        return "NDPtcCmefH" if arguments.long else "NDPt"
    return "PalDTCemN" if arguments.long else "PalDtN"


def _about_devices(arguments: argparse.Namespace, nodes: list[Row]) -> str:
    """More columns for a long list of nodes, if one of them has devices."""
    return "Gk" if arguments.node and arguments.long and any(node["confinement"] for node in nodes) else ""


def _confined(row: Row) -> str:
    """Whether jobs are kept from devices of other jobs; empty for nodes without devices.

    >>> _confined({"nodes": [{"confinement": "jobs are NOT kept from devices of other jobs (bpf: no rights)"}]})
    'no (bpf: no rights)'
    >>> _confined({"nodes": [{"confinement": "jobs can open no device of another job (cgroup v2)"}]})
    'yes (cgroup v2)'
    """
    text = row["nodes"][0]["confinement"]
    _, _, detail = text.partition(" (")
    return f"{'no' if ' NOT ' in text else 'yes'} ({detail}" if detail else text


def _per_node(nodes: list[Row]) -> list[Row]:
    return [{"partition": node["partition"], "state": node["shown_state"], "nodes": [node]} for node in nodes]


def _grouped(nodes: list[Row], apart: Sequence[Field], *, by_state: bool) -> list[Row]:
    """A line per partition, or per partition and state, and per different texts of the fields ``apart``."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for node in nodes:
        texts = [field.shown({"nodes": [node]}) for field in apart]
        groups.setdefault((node["partition"], node["shown_state"] if by_state else "", *texts), []).append(node)
    return [{"partition": key[0], "state": key[1], "nodes": group} for key, group in sorted(groups.items())]


def fields() -> dict[str, Field]:
    """The columns by sinfo's letters. A row is a group of nodes."""
    return {
        "P": column_of("partition", "PARTITION"),
        "a": Field("AVAIL", lambda _: "up"),
        "l": Field("TIMELIMIT", lambda _: "infinite", numeric=True),
        "D": Field("NODES", lambda row: len(row["nodes"]), numeric=True),
        "F": Field("NODES(A/I/O/T)", _counts),
        "t": column_of("state", "STATE"),
        "T": column_of("state", "STATE"),
        "N": Field("NODELIST", lambda row: fold(node["name"] for node in row["nodes"])),
        "c": Field("CPUS", _span("capacity", "vcore", "{:g}".format), numeric=True),
        "C": Field("CPUS(A/I/O/T)", _cores),
        "m": Field("MEMORY", _span("capacity", "memory", shown_bytes), numeric=True),
        "e": Field("USED_MEMORY", _span("allocated", "memory", shown_bytes), numeric=True),
        "f": Field(
            "LABELS",
            lambda row: ",".join(sorted({f"{k}={v}" for n in row["nodes"] for k, v in n["labels"].items()})),
        ),
        "E": Field("REASON", lambda row: row["nodes"][0]["drain_reason"] or "none"),
        "u": Field("USER", lambda row: row["nodes"][0]["drained_by"] or ""),
        "G": Field("GRES", _gres),
        "k": Field("CONFINED", _confined),
        "H": Field("HEARTBEAT", lambda row: shown_time(min(node["heartbeat_at"] for node in row["nodes"]))),
    }


def _span(part: str, resource: str, text: Callable[[float], str]) -> Callable[[Row], str]:
    """One amount, or the least with a plus if nodes differ."""

    def shown(row: Row) -> str:
        amounts = {node[part].get(resource, 0) for node in row["nodes"]}
        return text(min(amounts)) + ("+" if len(amounts) > 1 else "")

    return shown


def _gres(row: Row) -> str:
    """What the nodes offer besides cores and memory; with a plus if they differ."""
    found = sorted({shown_gres(node["capacity"]) for node in row["nodes"]}, reverse=True)
    return (found[0] or "(null)") + ("+" if len(found) > 1 else "")


def _counts(row: Row) -> str:
    states = [node["shown_state"] for node in row["nodes"]]
    used, idle = sum(state in ("allocated", "mixed") for state in states), states.count("idle")
    return f"{used}/{idle}/{len(states) - used - idle}/{len(states)}"


def _cores(row: Row) -> str:
    """Allocated, idle, out of use, total."""
    used = sum(node["allocated"].get("vcore", 0) for node in row["nodes"])
    total = sum(node["capacity"].get("vcore", 0) for node in row["nodes"])
    out = sum(
        n["capacity"].get("vcore", 0) - n["allocated"].get("vcore", 0) for n in row["nodes"] if n["state"] != "up"
    )
    return f"{used:g}/{total - used - out:g}/{out:g}/{total:g}"
