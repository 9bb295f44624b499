"""May this be accepted, and as what: class resolution, limits, what a submission may ask for."""
