"""Node sorting policies, entry-point group ``rankd.node_sort``: one per file, with formula and source."""
