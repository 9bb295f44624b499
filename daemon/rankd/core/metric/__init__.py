"""What rankd exports to Prometheus: names, units, labels, and the bounds of each. Pure."""
