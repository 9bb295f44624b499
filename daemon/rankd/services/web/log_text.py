"""What a job has written, as a page shows it: the newest part, without what moves a cursor or hides. Pure."""

from __future__ import annotations

import codecs
import re

MOST_BYTES = 32 * 2**10
"""What a page shows of a stream: its newest bytes."""
REPLACED = "\N{REPLACEMENT CHARACTER}"
_STYLES = re.compile(r"\x1b\[[0-9;:?]{0,32}[@-~]|\x1b\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)")
"""What terminals take as colours, movements and titles."""
_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u2800\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\ue000-\uf8ff\U000e0000-\U000e0fff]"
)


class LogText:
    """The end of one stream."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self.is_cut = False
        """Whether bytes before the shown ones are left out."""

    def take(self, data: bytes, *, is_from_within: bool = False) -> None:
        """Add bytes. No more than :data:`MOST_BYTES` are kept. ``is_from_within``: the first was not the stream's."""
        self._bytes += data
        self.is_cut = self.is_cut or is_from_within
        if len(self._bytes) > MOST_BYTES:
            del self._bytes[: len(self._bytes) - MOST_BYTES]
            self.is_cut = True

    def shown(self) -> str:
        r"""The text. If it is cut, it begins with a whole line, where there is one.

        Styles of terminals are left out, a carriage return begins a line, and what can't be seen is replaced.

        >>> log = LogText()
        >>> log.take(b"\x1b[31mred\x1b[0m\r\n\xff\x00 10%\r20%")
        >>> log.shown()
        'red\n\ufffd\ufffd 10%\n20%'
        """
        data = bytes(self._bytes)
        if self.is_cut:
            data = data[data.find(b"\n") + 1 :]
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(data)  # a character that is not whole yet waits
        text = _STYLES.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
        return _UNSEEN.sub(REPLACED, text)
