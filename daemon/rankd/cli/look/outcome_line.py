"""What a started job used beside what it asked for, and what it waited for, as lines of ``rankd why``."""

from __future__ import annotations

from typing import Any

from rankd.cli.common.duration import MINUTE_S, shown_duration
from rankd.core.model.amount_text import shown_bytes
from rankd.core.model.wait_word import WAITED


def used(answer: dict[str, Any]) -> str:
    """``it ran 1:00:00 of 1:00:00, used 2.1 of 4 cores (52 %) and at most 1.2G of 4G``; empty if it has not ended.

    Memory is that of the node with the most, beside what was asked for on each node.
    """
    started, ended = answer.get("started_at"), answer.get("ended_at")
    if started is None or ended is None or not answer.get("nodelist"):
        return ""
    ran_s = ended - started
    limit_s = answer.get("time_limit_s")
    parts = [_cores(answer, ran_s), _memory(answer)]
    use = " and ".join(part for part in parts if part)
    of = f" of {shown_duration(limit_s)}" if limit_s else ""
    return f"it ran {short_time(ran_s)}{of}{f', used {use}' if use else ''}"


def _cores(answer: dict[str, Any], ran_s: float) -> str:
    cpu_s, cores = answer.get("cpu_s"), answer.get("cores")
    if cpu_s is None or not cores or ran_s <= 0:
        return ""
    mean = cpu_s / ran_s
    return f"{mean:.1f} of {cores:g} {'core' if cores == 1 else 'cores'} ({100 * mean / cores:.0f} %)"


def _memory(answer: dict[str, Any]) -> str:
    peak, asked = answer.get("max_rss_bytes"), answer.get("memory")
    if peak is None:
        return ""
    return f"at most {shown_bytes(peak)}{f' of {shown_bytes(asked)}' if asked else ''} of memory"


def waited(answer: dict[str, Any]) -> list[str]:
    """``It waited 0:40: 0:10 dependency, 0:28 resources, 0:02 starting.``; nothing while that is not known."""
    parts = {word: answer.get(name) for name, word in WAITED.items()}
    known = {word: part for word, part in parts.items() if part is not None}
    if not known:
        return []
    shown = [f"{short_time(part)} {word}" for word, part in known.items() if part > 0]
    begin = "So far, it has waited" if answer.get("state") in ("pending", "allocated") else "It waited"
    return [f"{begin} {short_time(sum(known.values()))}{': ' if shown else ''}{', '.join(shown)}."]


def short_time(seconds: float) -> str:
    """Less than a minute in seconds, since most jobs start within one."""
    return f"{seconds:.3g} s" if seconds < MINUTE_S else shown_duration(seconds)
