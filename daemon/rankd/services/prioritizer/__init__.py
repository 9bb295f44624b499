"""The prioritizer: ranks the pending jobs again and again, and waits for no other service."""
