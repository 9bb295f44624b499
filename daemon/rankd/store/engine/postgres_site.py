"""The identity of a PostgreSQL database."""

from __future__ import annotations

from sqlalchemy import Connection

from rankd.wire.site import Site

SERVER = """SELECT CAST(system_identifier AS TEXT), CAST(oid AS BIGINT)
FROM pg_control_system(), pg_database WHERE datname = current_database()"""


def site_of_server(connection: Connection) -> Site:
    """The identity of the PostgreSQL database of this connection. Its standbys have the same."""
    system, number = connection.exec_driver_sql(SERVER).one()
    return Site(machine=f"postgresql {system}", device=number, inode=0)
