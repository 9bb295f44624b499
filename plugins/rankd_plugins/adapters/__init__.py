"""Adapters that come with rankd: where inputs from outside are read from."""
