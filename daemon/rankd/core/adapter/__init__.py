"""Inputs from outside: the adapter protocol, what rows must be to be taken, and how they go over the configuration.

Pure: plugins do the reading (``rankd_plugins.adapters``), in processes of their own.
"""
