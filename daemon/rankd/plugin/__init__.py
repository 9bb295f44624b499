"""Factors of other packages, in worker processes: what they do harms and delays nobody else.

The service's side is :mod:`.worker_factor` (a factor like any other) on :mod:`.process` (one worker); :mod:`.worker`
runs in the worker. Between them :mod:`.message` over one socket (:mod:`.frame`), and jobs in shared memory
(:mod:`.block`).
"""
