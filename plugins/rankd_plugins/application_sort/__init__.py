"""Application sorting policies, entry-point group ``rankd.application_sort``: one per file, with source and example."""
