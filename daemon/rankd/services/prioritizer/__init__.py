"""The prioritizer: ranks the pending jobs, all the time, and waits for nobody."""
