"""``python -m rankd``: the command line."""

from rankd.cli.main import main

raise SystemExit(main())
