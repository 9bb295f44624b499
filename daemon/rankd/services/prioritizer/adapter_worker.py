"""One reading of one adapter, in a process of its own: ``python -m rankd.services.prioritizer.adapter_worker``.

Takes a task on standard input, answers on standard output, ends. Whatever the plugin does (blocks, leaks, prints,
crashes) harms nobody else; the rows are checked here too, so that the prioritizer only decodes what is good. Its
time is over when the alarm ends it, whatever it does then.
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
    """What is to be read. ``digest`` is of the input in force: the same is not sent again."""

    settings: AdapterSettings
    directory: str
    allowed: Range = Range()
    digest: str = ""


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of it: an ``error``; or ``digest`` and ``rows`` of the input, which is absent where it is the same."""

    error: str = ""
    digest: str = ""
    rows: int = 0
    input: msgspec.Raw = msgspec.Raw(b"null")


def read(task: Task) -> Answer:
    """Load the plugin, let it read, check the rows."""
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
        return Answer(error="it does not fit into the memory")
    except Exception as error:  # noqa: BLE001 - a plugin may raise anything
        return Answer(error=f"{type(error).__name__}: {error}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    content = msgspec.json.encode(taken)
    digest = hashlib.sha256(content).hexdigest()
    same = digest == task.digest
    return Answer(digest=digest, rows=len(taken), input=msgspec.Raw(b"null" if same else content))


def main() -> None:
    """Nothing but the answer goes to standard output, whatever a plugin prints."""
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
    answer_to = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(answer_to, "wb") as out:
        out.write(msgspec.json.encode(read(task)))


if __name__ == "__main__":
    main()
