"""What rankd talks about: jobs, queues, nodes, classes, associations, settings.

Frozen records; the rules that need more than one record live in the sibling packages.
"""
