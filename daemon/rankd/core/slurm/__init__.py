"""Slurm's own formats, text in, typed rows out: what ``sacctmgr``, ``sshare`` and ``scontrol`` print.

Pure. Every module takes the text of one file and a :class:`~rankd.core.slurm.reading.Reading`, which collects what
can't be read (with its line) and what has no equivalent in rankd in rankd.
"""
