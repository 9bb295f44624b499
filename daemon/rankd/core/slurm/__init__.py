"""Parsers of Slurm's own formats: the output of ``sacctmgr``, ``sshare`` and ``scontrol``.

Pure. Each parser takes the text of one file and a :class:`~rankd.core.slurm.reading.Reading`. The reading collects the
lines that can't be read, and the values without an equivalent in rankd.
"""
