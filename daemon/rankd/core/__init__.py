"""Decisions as synchronous functions of (state, event, now).

No clock, no randomness, no asyncio, no I/O. Only the standard library, numpy and msgspec are used; import-linter checks
that. The daemon, the command line and the tests call the same functions.
"""
