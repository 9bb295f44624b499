"""The fields of ``rankd acct``: sacct's names, and what each shows of a job."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rankd.cli.common.amount import gpus_of, shown_tres, times
from rankd.cli.common.duration import shown_duration, shown_time
from rankd.cli.common.layout import Field, column_of
from rankd.cli.look.counted_row import is_rest
from rankd.cli.look.efficiency import efficiency_fields
from rankd.cli.look.queue import shown_nodes
from rankd.core.model.amount_text import shown_bytes
from rankd.core.model.array import shown_list, shown_name
from rankd.core.model.index_set import each, read
from rankd.core.model.nodelist import fold

if TYPE_CHECKING:
    from collections.abc import Callable

    from rankd.cli.common.freshness import Known
    from rankd.store.engine.reading import Row

_WORDS = {"node_lost": "NODE_FAIL"}


def fields(known_until: Known) -> dict[str, Field]:
    """The columns, by sacct's names in lower case."""
    known = [*_of_the_job(), *_of_its_nodes(), *_of_its_times(known_until), *_of_its_use(known_until)]
    return {field.header.lower(): field for field in known}


def _of_the_job() -> list[Field]:
    return [
        Field("JobID", _of("id"), _name, numeric=True),
        column_of("id", "JobIDRaw", numeric=True),
        column_of("name", "JobName"),
        column_of("user", "User"),
        column_of("account", "Account"),
        column_of("partition", "Partition"),
        column_of("queue", "Queue"),
        column_of("qos", "QOS"),
        Field("State", _state),
        Field("Reason", _reason),
        Field("ExitCode", lambda row: f"{row['exit_status'] or 0}:{row['signal'] or 0}"),
    ]


def _of_its_nodes() -> list[Field]:
    return [
        Field("NNodes", _node_count, numeric=True),
        column_of("nodes", "ReqNodes", numeric=True),
        Field("NodeList", lambda row: fold(shown_nodes(row)) or "None assigned"),
        Field("AllocCPUS", _cores, lambda row: f"{_cores(row):g}", numeric=True),
        Field("NCPUS", _cores, lambda row: f"{_cores(row):g}", numeric=True),
        Field("ReqCPUS", lambda row: row["cores"], lambda row: f"{row['cores']:g}", numeric=True),
        Field("GPUs", _gpus, lambda row: f"{_gpus(row):g}" if _gpus(row) else "", numeric=True),
        Field("AllocTRES", _alloc_tres),
        Field("ReqTRES", _req_tres),
        Field("ReqMem", _req_mem, lambda row: shown_bytes(_req_mem(row)), numeric=True),
    ]


def _of_its_times(known_until: Known) -> list[Field]:
    elapsed = partial(_elapsed_s, known_until)
    return [
        _instant("Submit", "submitted_at"),
        _instant("Eligible", "eligible_at"),
        Field("Start", _started_at, lambda row: _time(_started_at(row))),
        _instant("End", "ended_at"),
        Field("Elapsed", elapsed, lambda row: shown_duration(elapsed(row)), numeric=True),
        Field("ElapsedRaw", elapsed, numeric=True),
        Field("Timelimit", _of("time_limit_s"), lambda row: shown_duration(row["time_limit_s"]), numeric=True),
    ]


def _of_its_use(known_until: Known) -> list[Field]:
    def core_s(row: Row) -> float:
        own = row.get("tasks")
        return sum(map(core_s, own)) if own else _elapsed_s(known_until, row) * _cores(row)

    def memory_byte_s(row: Row) -> float:
        return _elapsed_s(known_until, row) * float(_allocated(row).get("memory") or 0)

    def gpu_s(row: Row) -> float:
        own = row.get("tasks")
        return sum(map(gpu_s, own)) if own else _elapsed_s(known_until, row) * _gpus(row)

    return [
        Field("CPUTime", core_s, lambda row: shown_duration(core_s(row)), numeric=True),
        Field("GPUTime", gpu_s, lambda row: shown_duration(gpu_s(row)), numeric=True),
        Field("MemTime", memory_byte_s, lambda row: f"{memory_byte_s(row) / 2**30:.0f}", numeric=True),
        *efficiency_fields(core_s, partial(_elapsed_s, known_until)),
        Field("TotalCPU", _of("cpu_s"), lambda row: _measured(row["cpu_s"], "{:.3f}"), numeric=True),
        Field(
            "MaxRSS",
            _of("max_rss_bytes"),
            lambda row: _measured(row["max_rss_bytes"] and row["max_rss_bytes"] / 1024, "{:.0f}K"),
            numeric=True,
        ),
        Field("GPUUtil", _of("gpu_utilisation"), _gpu_utilisation, numeric=True),
        Field("MaxGPUMem", _of("gpu_memory"), _gpu_memory, numeric=True),
        Field("Measured", _of("measured"), lambda row: row.get("measured") or ""),
        column_of("requeues", "Restarts", numeric=True),
        column_of("comment", "Comment"),
        column_of("cwd", "WorkDir"),
    ]


def _req_mem(row: Row) -> float:
    return float(row["resources"].get("memory") or 0)


def _elapsed_s(known_until: Known, row: Row) -> int:
    return int(known_end(row, known_until) - row["started_at"]) if _started_at(row) else 0


def _started_at(row: Row) -> float | None:
    """When it started. The pending tasks of an array have not: the start in their row is that of its first task."""
    started: float | None = None if is_rest(row) else row["started_at"]
    return started


def _of(name: str) -> Callable[[Row], object]:
    return lambda row: row.get(name)


def _state(row: Row) -> str:
    """The state in sacct's words: ``CANCELLED by alice``, ``OUT_OF_MEMORY``."""
    by = row.get("cancelled_by")
    word = _WORDS.get(row["state"], row["state"].upper())
    return f"{word} by {by}" if by else word


def _reason(row: Row) -> str:
    """Why a job waits, or why it ended: the cause and the message that are recorded."""
    if row["state"] == "pending":
        return row.get("reason") or ""
    return ": ".join(text for text in (row.get("cause"), row.get("message")) if text)


def by_task(row: Row) -> tuple[int, int]:
    """The order of rows: by job, and tasks behind their array by their index. Their records have later ids."""
    if row.get("array_job") is None:
        return int(row["id"]), -1
    listed = read(row.get("array")) if row["array_task"] is None else ()
    return int(row["array_job"]), next(each(listed), -1) if listed else int(row["array_task"] or 0)


def _name(row: Row) -> str:
    """``17``, ``17_3``, or ``17_[4-99%4]`` for tasks without records; ``17.0`` for a step."""
    if row.get("step") is not None:
        return f"{_name(row | {'step': None})}.{row['step']}"
    listed = shown_list(row.get("array"))
    if row.get("array_job") is not None and row["array_task"] is None:
        return shown_name(row["array_job"], None, None, listed, None)
    return shown_name(row["id"], row.get("array_job"), row.get("array_task"), listed, row.get("array_limit"))


def _instant(header: str, name: str) -> Field:
    return Field(header, _of(name), lambda row: _time(row[name]))


def _time(at: float | None) -> str:
    return "Unknown" if at is None else shown_time(at)


def _measured(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


def _gpu_utilisation(row: Row) -> str:
    """The mean of all GPUs since the start, in percent."""
    value = row.get("gpu_utilisation")
    return _measured(value and 100 * value, "{:.0f}%")


def _gpu_memory(row: Row) -> str:
    value = row.get("gpu_memory")
    return _measured(value and value / 2**20, "{:.0f}M")


def _node_count(row: Row) -> int:
    return len(shown_nodes(row)) or int(row["nodes"])


def _cores(row: Row) -> float:
    """The cores on the nodes of the job. They can be fewer than requested with ``-N N-M``. 0 before its start."""
    if row.get("allocated") and shown_nodes(row):
        return float(row["allocated"].get("vcore") or 0)
    return len(shown_nodes(row)) * float(row["cores"]) / int(row["nodes"])


def _gpus(row: Row) -> float:
    """The GPUs of the job on all its nodes. 0 before its start."""
    return gpus_of(_allocated(row))


def _allocated(row: Row) -> Row:
    """What the job has on all its nodes, with the models that it was given."""
    if row.get("allocated"):  # of an exclusive job, with its devices
        return dict(row["allocated"]) if shown_nodes(row) else {}
    amounts = times(row["resources"] or {}, len(shown_nodes(row)))
    given = {f"gpu:{model}": number for model, number in (row.get("gpus") or {}).items()}
    if not given:
        return amounts
    others = {kind: amount for kind, amount in amounts.items() if kind != "gpu" and not kind.startswith("gpu:")}
    return others | {"gpu": sum(given.values())} | given


def _alloc_tres(row: Row) -> str:
    return shown_tres(_cores(row), len(shown_nodes(row)), _allocated(row)) if shown_nodes(row) else ""


def _req_tres(row: Row) -> str:
    return shown_tres(row["cores"], int(row["nodes"]), times(row["resources"] or {}, int(row["nodes"])))


def known_end(row: Row, known: Known) -> float:
    """When a job that has started ended, or until when it is known to run. UTC seconds, never before its start."""
    until: float = row["ended_at"] or known.of(shown_nodes(row))
    started: float = row["started_at"]
    return max(until, started)
