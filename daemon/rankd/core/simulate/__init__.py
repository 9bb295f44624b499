"""A trace of jobs, lived through on a virtual clock by the daemon's own decisions: ``rankd simulate``."""
