"""The agent: requests the allocations of its nodes, has their jobs run, and reports."""
