"""The connection that every function of the store takes. Services pass it through and run no statement on it."""

from sqlalchemy import Connection

__all__ = ["Connection", "ping"]


def ping(connection: Connection) -> None:
    """Read nothing: whether the database answers."""
    connection.exec_driver_sql("SELECT 1").all()
