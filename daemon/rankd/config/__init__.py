"""Reads and checks a configuration directory into frozen records. Reports all problems at once, with their places."""
