"""The agent: takes the allocations of its nodes, has them run, and reports."""
