"""Commands under "Jobs": submit, cancel, hold, release, update, dead letters."""
