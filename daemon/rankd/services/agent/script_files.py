"""The scripts of running jobs, one file for each allocation. The kernel executes it, as the job's user.

::

    <output>/.scripts/<instance>/<allocation>     mode 0500, of the job's user

They are below the output directory, since jobs can reach that one with their own rights. Only the agent can change the
directories. So an agent that is root follows no path here that a user could replace, and a user can't add anything to
what the agent removes. The instance keeps agents apart that share an output directory. Everything here blocks.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from rankd.services.agent.users_directory import make_top
from rankd.services.keeper.proc import Identity

FOLDER = ".scripts"
OWN, EXECUTABLE = 0o700, 0o500
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class ScriptFiles:
    """Writes and removes the scripts of one agent. ``has_users_rights``: jobs run as their users."""

    def __init__(self, output: Path, instance: str, *, has_users_rights: bool) -> None:
        self._top = output / FOLDER
        self._directory = self._top / (instance or "unnamed")
        self._has_users_rights = has_users_rights

    def write(self, allocation: int, script: bytes, identity: Identity | None) -> str:
        """Write the script of an allocation for its user; returns its path. None means the agent's own user.

        Raises:
            Refused: ``bad_path``: another user could replace the directory.
            OSError: it can't be written. Nothing is left.
        """
        self._make()
        path = self._directory / str(allocation)
        with suppress(FileNotFoundError):  # of an agent that was killed before it gave the job to its keeper
            path.unlink()
        descriptor = os.open(path, _WRITE, EXECUTABLE)
        try:
            _fill(descriptor, script, identity)
        except OSError:
            path.unlink()
            raise
        finally:
            os.close(descriptor)
        return str(path)

    def _make(self) -> None:
        if self._has_users_rights:
            make_top(self._top)
            make_top(self._directory)
        else:
            self._directory.mkdir(mode=OWN, parents=True, exist_ok=True)

    def remove(self, allocations: Iterable[int]) -> None:
        """Remove the scripts of these allocations. Most have none."""
        for allocation in allocations:
            with suppress(OSError):
                (self._directory / str(allocation)).unlink()

    def keep_only(self, allocations: Collection[int]) -> None:
        """Remove the scripts of all other allocations, which an earlier agent left."""
        kept = {str(allocation) for allocation in allocations}
        with suppress(OSError):
            names = [path.name for path in self._directory.iterdir()]
            self.remove(int(name) for name in names if name.isdecimal() and name not in kept)


def _fill(descriptor: int, script: bytes, identity: Identity | None) -> None:
    rest = memoryview(script)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    if identity is not None:
        os.fchown(descriptor, identity.uid, identity.gid)
    os.fchmod(descriptor, EXECUTABLE)
