"""Job-priority factors, entry-point group ``rankd.factors``: one per file, with formula and source."""
