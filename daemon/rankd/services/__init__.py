"""The processes: intake, prioritizer, scheduler, agent, and ``up`` that runs all of them on one machine.

Each waits, decodes, calls the core, and carries out. ``run(options, stop)`` returns when ``stop`` is set.
"""
