"""Changes of existing jobs, nodes and dead letters. New jobs are decided in ``admission``.

Each decision is a pure function of three inputs: the present state, the request or report, and the time.
``store/record`` reads the states and writes the changes. Modules of the same name belong together.
"""
