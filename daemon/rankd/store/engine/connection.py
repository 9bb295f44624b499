"""The connection that every function of the store takes. Services pass it through and run no statement on it."""

from sqlalchemy import Connection

__all__ = ["Connection"]
