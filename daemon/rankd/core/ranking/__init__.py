"""The order of pending jobs: the factor protocol, job columns, the weighted sum, queue priorities, the total order."""
