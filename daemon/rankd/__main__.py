"""``python -m rankd``: the command line."""

import sys

if not sys.flags.safe_path:  # then the first entry is the current directory, which may be anybody's
    del sys.path[0]

from rankd.cli.main import process

raise SystemExit(process())
