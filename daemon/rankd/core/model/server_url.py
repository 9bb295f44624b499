"""URLs of PostgreSQL servers, as libpq reads them: with one host or several. Little is imported: commands ask it."""

import re

SCHEMES = ("postgresql://", "postgres://")
HIDDEN = "***"
_USER = re.compile(r"^([a-z]+://[^/?#:@]*):([^/?#]*)@")
_PARAMETER = re.compile(r"([?&](?:ssl)?password=)([^&#]*)")


def is_postgres(url: object) -> bool:
    """Whether ``--db`` names a PostgreSQL server."""
    return str(url).startswith(SCHEMES)


def without_password(url: str) -> str:
    """The URL as it may be shown.

    >>> without_password("postgresql://ann:secret@pg-1:5432,pg-2:5432/rankd?target_session_attrs=read-write")
    'postgresql://ann:***@pg-1:5432,pg-2:5432/rankd?target_session_attrs=read-write'
    >>> without_password("postgresql:///rankd?user=ann&password=a%26b&host=/run/pg")
    'postgresql:///rankd?user=ann&password=***&host=/run/pg'
    >>> without_password("postgresql://ann@/rankd")
    'postgresql://ann@/rankd'
    """
    return _PARAMETER.sub(rf"\1{HIDDEN}", _USER.sub(rf"\1:{HIDDEN}@", url))
