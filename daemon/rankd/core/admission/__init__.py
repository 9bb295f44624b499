"""Which submissions are accepted, and with which values: priority classes, limits, amounts, access."""
