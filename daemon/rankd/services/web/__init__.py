"""The page: the queue in a browser, live, and why each job is where it is."""
