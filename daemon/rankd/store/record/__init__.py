"""Functions that change records, one file per subject."""
