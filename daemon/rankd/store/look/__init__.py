"""What people and commands ask of the records."""
