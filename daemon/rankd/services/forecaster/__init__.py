"""The forecaster: a process beside the scheduler that says when pending jobs will start."""
