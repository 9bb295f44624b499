"""The client: which rankd is asked, as whom, and how. The command line uses it, and so can programs."""
