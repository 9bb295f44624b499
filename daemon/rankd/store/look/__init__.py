"""Queries of users and commands on the records."""
