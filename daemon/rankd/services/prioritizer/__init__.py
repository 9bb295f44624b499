"""The prioritizer: ranks the pending jobs repeatedly, and waits for no other service."""
