"""How a job is described before it is submitted: what the comments of a batch script ask for."""
