"""Placement of jobs: snapshot + nodes + now -> allocations, and the reason why each other job waits."""
