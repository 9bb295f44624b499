"""The command line. One module per group of commands, imported only when one of them is asked for.

Each module has ``add_parser(subparsers)``, which adds the parsers of its commands and sets their default
``run``: a function of the parsed arguments that returns the exit status. See :mod:`rankd.cli.main`.
"""
