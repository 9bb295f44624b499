"""Decisions about sessions: what of a job a user reads or joins."""
