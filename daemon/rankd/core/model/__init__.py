"""The records that rankd works with: jobs, queues, nodes, classes, associations, settings.

Records are frozen. Rules that need more than one record are in the sibling packages.
"""
