"""Decisions as synchronous functions of (state, event, now).

No clock, no randomness, no asyncio, no I/O: the standard library, numpy and msgspec only. The daemon, the
command line and the tests call the same functions. import-linter checks it.
"""
