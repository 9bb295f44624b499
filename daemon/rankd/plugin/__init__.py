"""Factors of other packages, in worker processes, where they can neither harm nor delay others.

In the service, :mod:`.worker_factor` is a factor like any other, and uses :mod:`.process` (one worker). :mod:`.worker`
runs in the worker. They exchange :mod:`.message` over one socket (:mod:`.frame`), and jobs in shared memory
(:mod:`.block`).
"""
