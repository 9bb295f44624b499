"""Adapters that come with rankd. They read inputs from files, databases and programs."""
