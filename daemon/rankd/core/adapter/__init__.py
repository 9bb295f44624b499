"""Inputs from outside: the adapter protocol, the checks of rows, and how rows override the configuration.

Pure: plugins (``rankd_plugins.adapters``) read the inputs, in processes of their own.
"""
