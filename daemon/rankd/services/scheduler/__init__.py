"""The scheduler: a cycle per trigger, on the newest generation."""
