"""The scheduler: runs a cycle per trigger, on the newest generation."""
