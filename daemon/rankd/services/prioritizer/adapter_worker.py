"""One reading of one adapter, in a separate process: ``python -m rankd.services.prioritizer.adapter_worker``.

It reads a task from standard input, writes the answer to standard output and ends. A plugin that blocks, leaks, prints
or crashes affects only this process. The rows are checked here, so that the prioritizer decodes only valid ones. An
alarm ends the process when the time limit is over.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys

import msgspec

from rankd.config.adapter import load_adapter
from rankd.core.adapter.input import Range, checked_input
from rankd.core.errors import ConfigurationError
from rankd.core.model.setting import AdapterSettings


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """Which adapter to read. ``digest`` is that of the input in force; an unchanged input is not sent again."""

    settings: AdapterSettings
    directory: str
    allowed: Range = Range()
    digest: str = ""


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Either an ``error``, or the input's ``digest`` and number of ``rows``, with the input itself if it changed."""

    error: str = ""
    digest: str = ""
    rows: int = 0
    input: msgspec.Raw = msgspec.Raw(b"null")


def read(task: Task) -> Answer:
    """Load the plugin, call it, and check its rows."""
    try:
        adapter = load_adapter(task.settings, task.directory)
        signal.setitimer(signal.ITIMER_REAL, task.settings.time_limit_s)
        rows = adapter.read()
        taken = checked_input(rows, task.settings, task.allowed)
    except ConfigurationError as error:
        return Answer(error=error.message)
    except ValueError as error:
        return Answer(error=str(error) or "ValueError")
    except MemoryError:
        return Answer(error="the input does not fit into the memory")
    except Exception as error:  # noqa: BLE001 - a plugin may raise anything
        return Answer(error=f"{type(error).__name__}: {error}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    content = msgspec.json.encode(taken)
    digest = hashlib.sha256(content).hexdigest()
    same = digest == task.digest
    return Answer(digest=digest, rows=len(taken), input=msgspec.Raw(b"null" if same else content))


def main() -> None:
    """Run one task. Output of a plugin goes to standard error."""
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
    answer_to = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(answer_to, "wb") as out:
        out.write(msgspec.json.encode(read(task)))


if __name__ == "__main__":
    main()
