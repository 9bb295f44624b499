"""How rankd starts another Python process: with the operator's modules, never with those of the current directory.

The flag is ``-P``, not ``-I``. ``-I`` also ignores PYTHONPATH and the user's own site-packages, where an operator may
have put a plugin, or rankd itself. ``-P`` only leaves out the current directory. An empty or relative entry of
PYTHONPATH also means the current directory, and is easily made (``PYTHONPATH=$PYTHONPATH:/opt/site`` if PYTHONPATH was
not set). So these entries are removed as well.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

PATH = "PYTHONPATH"


def python_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module with this interpreter."""
    return [sys.executable, "-P", "-m", module, *arguments]


def python_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without the entries of PYTHONPATH that depend on the current directory.

    >>> python_environment({"PYTHONPATH": ":/opt/site:lib:.", "HOME": "/root"})
    {'PYTHONPATH': '/opt/site', 'HOME': '/root'}
    >>> python_environment({"PYTHONPATH": "."})
    {}
    """
    entries = [entry for entry in environment.get(PATH, "").split(os.pathsep) if os.path.isabs(entry)]  # noqa: PTH117
    cleaned = {**environment, PATH: os.pathsep.join(entries)}
    if not entries:
        del cleaned[PATH]
    return cleaned
