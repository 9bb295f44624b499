"""File: a CSV, JSON, YAML or TOML file, or the output of one of Slurm's commands.

options = { path = "shares.csv", format = "csv", delimiter = "," }

A relative ``path`` starts from the configuration's directory. The default of ``format`` follows from the file's ending;
for an unknown ending it is ``slurm``. A file that may be half written is refused (:mod:`rankd.core.adapter.text`). So
write a new file beside it, and rename that.
"""

from __future__ import annotations

from pathlib import Path

import yaml

from rankd.core.adapter.source import ReadRequest, Row, check_options, text_option
from rankd.core.adapter.text import FORMATS, check_end, rows_of_document, rows_of_text

_ENDINGS = {".csv": "csv", ".json": "json", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml"}
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class File:
    """One file, which is read as a whole."""

    def __init__(self, request: ReadRequest) -> None:
        check_options(request, "path", "format", "delimiter")
        self._request = request
        self._path = Path(request.directory) / text_option(request, "path")
        self._format = text_option(request, "format", _ENDINGS.get(self._path.suffix.lower(), "slurm"))
        self._delimiter = text_option(request, "delimiter", ",")
        if self._format not in (*FORMATS, "yaml"):
            raise ValueError(f"options.format: '{self._format}' is not one of {', '.join((*FORMATS, 'yaml'))}")
        if len(self._delimiter) != 1:
            raise ValueError(f"options.delimiter: '{self._delimiter}' is not one character")

    def read(self) -> list[Row]:
        """The present rows of the file."""
        text = self._text()
        if self._format != "yaml":
            return rows_of_text(text, self._format, self._request.input, self._delimiter)
        if not text.strip():
            raise ValueError("it is empty")
        check_end(text)
        try:
            return rows_of_document(yaml.load(text, Loader=_Loader))  # noqa: S506 - one of the two safe loaders
        except yaml.YAMLError as error:
            raise ValueError(f"it is not YAML, or half written: {error}") from None

    def _text(self) -> str:
        most = self._request.largest_bytes
        with self._path.open("rb") as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise ValueError(f"it has more than {most} bytes; is it the right file? (largest_bytes)")
        return content.decode("utf-8")
