"""A server that was just started: whether it answers, and its first database."""

from __future__ import annotations

import psycopg

from rankd.store.engine.postgres_connection import connect

_DATABASE = "SELECT FROM pg_catalog.pg_database WHERE datname = ?"


def has_answered(url: str) -> bool:
    """Whether the server of this URL takes connections now."""
    try:
        connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


def make_database(url: str, name: str) -> None:
    """Make a database, unless it exists. ``url``: another database of the same server. ``name``: a plain word."""
    connection = connect(url)
    try:
        if connection.execute(_DATABASE, (name,)).fetchone() is None:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
    finally:
        connection.close()
