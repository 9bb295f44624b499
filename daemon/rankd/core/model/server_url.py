"""Whether a URL names a PostgreSQL server. Imports nothing, because the command line asks it."""

SCHEMES = ("postgresql://", "postgres://")


def is_postgres(url: object) -> bool:
    """Whether ``--db`` names a PostgreSQL server."""
    return str(url).startswith(SCHEMES)
