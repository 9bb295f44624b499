"""The processes: intake, prioritizer, scheduler, agent, and ``up``, which runs all of them on one machine.

Each one waits, decodes a message, calls the core, and carries out the result. ``run(options, stop)`` returns when
``stop`` is set.
"""
