"""When pending jobs will start: the daemon's own cycles, run forward from the live state on a virtual clock."""
