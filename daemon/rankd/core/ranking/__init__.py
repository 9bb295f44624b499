"""In which order: the factor protocol, columns of jobs, the weighted sum, queue priorities, the total order."""
