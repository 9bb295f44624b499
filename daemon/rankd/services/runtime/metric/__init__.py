"""What a process exports to Prometheus, and how it is served."""
