"""What may be done to jobs, nodes and dead letters that exist. What becomes a new job is decided in ``admission``.

Each decision is a pure function of the present state, what is asked or reported, and the time. ``store/record`` reads
the states and writes the changes; modules of the same name belong together.
"""
