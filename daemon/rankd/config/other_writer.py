"""Who else could change a configuration: such a person has the rights of the services that read it.

Its adapters name commands and databases, and the services run them.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from rankd.config.change import FILES
from rankd.core.errors import Problem

ROOT = 0


def other_writers(directory: Path) -> list[Problem]:
    """A warning for the directory and for each file that others than root and this process's user can change.

    A group that can write is named only if this process is root's: at a desk it is mostly a user's own group.
    """
    user = os.geteuid()
    problems = []
    for path in (directory, *(directory / name for name in FILES)):
        try:
            found = path.stat()
        except OSError:  # a missing file has its defaults; one that can't be read is an error elsewhere
            continue
        if found.st_uid not in (user, ROOT):
            why = f"belongs to user {found.st_uid}, who can change it"
        elif found.st_mode & stat.S_IWOTH or (user == ROOT != found.st_gid and found.st_mode & stat.S_IWGRP):
            why = "can be changed by others than its owner"
        else:
            continue
        what = "the directory" if path == directory else path.name
        message = f"{what} {why}, and with it what services run as user {user} do; give it to root, mode 0755 or 0644"
        problems.append(Problem(file=str(directory) if path == directory else path.name, path="", message=message))
    return problems
