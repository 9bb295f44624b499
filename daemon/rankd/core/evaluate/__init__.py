"""``rankd evaluate``: the whole decision as a pure function of one document.

The document is turned into the very structures that the daemon's services fill from the database, and decided by
the same functions. Nothing here reads a file, a clock or an entry point.
"""
