"""Batch scripts and options like those of sbatch, as requests of jobs.

`rankd submit` uses all of it, and :class:`.Client` reads the lines of scripts with it.
"""
