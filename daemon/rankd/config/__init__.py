"""Reading and checking a configuration directory into frozen records: all problems at once, with their places."""
