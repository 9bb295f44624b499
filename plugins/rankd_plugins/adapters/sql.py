"""SQL: a query to any database that SQLAlchemy knows.

options = { url = "postgresql+psycopg://reader@db.example.org/site", query = "SELECT account, user, shares FROM …" }

The columns of the query are the columns of the rows. All changes by the query are rolled back. A relative path
of a SQLite file starts from the configuration's directory; the file must exist. ``url`` may contain environment
variables, such as ``${SITE_PASSWORD}``, to keep passwords out of the configuration.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from rankd.core.adapter.source import Cell, ReadRequest, Row, check_options, text_option

_VARIABLE = re.compile(r"\$\{(\w+)\}")
_MOST_AT_ONCE = 1000
_OVERHEAD = 8
"""Bytes counted for each cell, in addition to its text."""


class Sql:
    """One query, with its own connection."""

    def __init__(self, request: ReadRequest) -> None:
        check_options(request, "url", "query")
        self._most = request.largest_bytes
        self._query = text_option(request, "query")
        try:
            url = make_url(_VARIABLE.sub(_value, text_option(request, "url")))
        except ArgumentError:
            raise ValueError("options.url: this is not a URL that SQLAlchemy can use; write dialect://…") from None
        self._file: Path | None = None
        if url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:"):
            self._file = Path(request.directory) / str(url.database)
            url = url.set(database=str(self._file))
        self._url = url

    def read(self) -> Iterator[Row]:
        """The query's rows.

        Raises:
            ValueError: there is no such database, the query failed, or the rows have too many bytes.
        """
        if self._file is not None and not self._file.exists():  # SQLite would create an empty database
            raise ValueError(f"the database {self._file} does not exist")
        engine = create_engine(self._url, poolclass=NullPool)
        size = 0
        try:
            with engine.connect() as connection:
                result = connection.execution_options(stream_results=True).execute(text(self._query))
                names = list(result.keys())
                for rows in result.partitions(_MOST_AT_ONCE):
                    for row in rows:
                        cells = [_cell(value) for value in row]
                        size += sum(len(cell) if isinstance(cell, str) else 0 for cell in cells)
                        size += _OVERHEAD * len(cells)
                        yield dict(zip(names, cells, strict=True))
                    if size > self._most:
                        raise ValueError(f"it gives more than {self._most} bytes; is it the right query?")
        except SQLAlchemyError as error:
            cause = getattr(error, "orig", None) or error
            raise ValueError(f"{self._url.render_as_string(hide_password=True)}: {cause}") from None


def _value(match: re.Match[str]) -> str:
    name = match.group(1)
    if name not in os.environ:
        raise ValueError(f"options.url: the environment variable {name} is not set")
    return os.environ[name]


def _cell(value: Any) -> Cell:  # noqa: ANN401 - drivers give values of any type
    """A plain value as it is, a decimal as a float, any other value as text. The column may refuse the text later."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return float(value) if isinstance(value, Decimal) else str(value)
