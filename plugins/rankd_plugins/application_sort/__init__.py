"""Application sorting policies, entry-point group ``rankd.application_sort``."""
