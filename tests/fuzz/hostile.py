"""Makes hostile inputs from a seed: documents of known fields with wrong values, and good inputs that are damaged.

The same seed makes the same inputs. Hypothesis makes a few hundred inputs a second; a million need more.
"""

from __future__ import annotations

import json
import random
import string

NUMBERS = [0, -1, 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**400, 1e308, 5e-324, -0.0, 0.5, 1e22]
TEXTS = [
    "", " ", "a", "alice", "root", "*", ">", ".", "..", "a.b", "%", "%41", "%FF", "%00", "../../etc/passwd",
    "/dev/zero",
    "\0", "\n", "\r\n", "\x1b[2J", "\x7f", "\u0085", "\u2028", "\u202e", "\u200b", "\ufeff", "\ufffd", "\U0010ffff",
    "日本", "e\u0301", "1e999", "NaN", "-Infinity", "null", "true", "0x10", "1_000", "٣", "4Gi", "1e30Ti", "-1", "1.5",
    "afterok:1", "gpu in (a,b)", "!gpu", "a=b,c!=d", "1-100%5", "root.default", "'; DROP TABLE jobs; --", "{{",
    "${HOME}", "=?utf-8?q?=0d=0aBcc:_a@b.c?=", "=?utf-8?b?DQpCY2M6IGE=?=",
    "&a [*a]", "!!python/object:os.system", "a" * 300, "x" * 5_000, "." * 1_200, "\\", '"', "[" * 60, "{" * 60,
]  # fmt: skip
RAW = [
    "NaN", "Infinity", "-Infinity", "1e999", "9" * 400, "-", "01", "1.", '"\\ud800"', '"\\u0000"', '"\\x"',
    "{", "[", "]",
    "}", '{"a":1,"a":2}', "[" * 2_000, '{"a":' * 1_500, "[" * 500 + "]" * 500, "null", "true", "", "/**/", "'a'",
    '"\xff"', "1" + "0" * 5_000, "[1,]",
]  # fmt: skip
TOKENS = [
    b"\xff", b"\xfe\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\x00", b"\r\n", b"\n\n", b"\t", b" ", b"%", b"&a ",
    b"*a", b"!!",
    b"<<: *a\n", b"- ", b": ", b"#", b"|\n", b"---\n", b"...\n", b"{", b"}", b"[", b"]", b'"', b"'", b'"""',
    b"''' ", b"\\",
    b"\\u", b"\\ud800", b"[[a]]\n", b"[a.b]\n", b"a.b.c = 1\n", b"= ", b"inf", b"nan", b"1979-05-27T07:32:00Z", b"0o7",
    b"1e999", b"9" * 400, b"-0", b"0x", b"=", b",", b";", b"|", b"a" * 1_000, b"[" * 1_000, b"{" * 300, b"- " * 300,
    b"&b [*b,*b]", "\u202e日".encode(),
]  # fmt: skip
MOST_BYTES = 200_000


class Hostile:
    """A source of hostile inputs; the same one for the same seed."""

    def __init__(self, seed: int | str) -> None:
        self.chance = random.Random(seed)

    def text(self) -> str:
        """Any text, often one that programs get wrong."""
        chance = self.chance
        kind = chance.random()
        if kind < 0.6:
            return chance.choice(TEXTS)
        if kind < 0.8:
            return "".join(chance.choices(string.printable, k=chance.randrange(40)))
        return "".join(chr(self._point()) for _ in range(chance.randrange(20)))

    def _point(self) -> int:
        point = self.chance.randrange(self.chance.choice((256, 0x3000, 0x110000)))
        return point if not 0xD800 <= point < 0xE000 else 0xFFFD

    def value(self, depth: int = 3) -> object:
        """A value of JSON, of any type."""
        chance = self.chance
        kind = chance.randrange(8 if depth else 5)
        if kind < 2:
            return self.text()
        if kind == 2:
            return chance.choice(NUMBERS)
        if kind == 3:
            return chance.choice((None, True, False, chance.randrange(-10, 10), chance.uniform(-1e6, 1e6)))
        if kind == 4:
            return chance.choice(([], {}, ""))
        if kind < 7:
            return [self.value(depth - 1) for _ in range(chance.choice((0, 1, 2, 5)))]
        return {self.text(): self.value(depth - 1) for _ in range(chance.choice((0, 1, 2, 5)))}

    def document(self, fields: list[str], good: dict[str, object]) -> bytes:
        """A JSON object: some of the fields, with good values or hostile ones, and now and then an unknown field."""
        chance = self.chance
        found = dict(good) if chance.random() < 0.7 else {}
        for name in chance.sample(fields, min(len(fields), chance.choice((0, 1, 1, 2, 5, 40)))):
            found[name] = self.value()
        if chance.random() < 0.05:
            found[self.text()] = self.value()
        text = json.dumps(found, ensure_ascii=chance.random() < 0.5)
        if chance.random() < 0.1 and '": ' in text:
            place = chance.choice([at for at in range(len(text)) if text.startswith('": ', at)]) + 3
            text = text[:place] + chance.choice(RAW) + text[place:]
        return self.damaged(text.encode()) if chance.random() < 0.1 else text.encode()

    def damaged(self, good: bytes, other: bytes = b"") -> bytes:
        """A good input after one to five changes: bytes are changed, cut, repeated, moved, or come from ``other``."""
        chance, data = self.chance, bytearray(good)
        for _ in range(chance.choice((1, 1, 2, 3, 5))):
            begin = chance.randrange(len(data) + 1)
            end = min(len(data), begin + int(chance.paretovariate(0.7)))
            match chance.randrange(8):
                case 0 if data:
                    data[min(begin, len(data) - 1)] = chance.randrange(256)
                case 1:
                    del data[begin:end]
                case 2:
                    data[begin:begin] = chance.choice(TOKENS)
                case 3:
                    data[begin:end] = chance.choice(TOKENS)
                case 4:
                    data[begin:begin] = data[begin:end] * chance.choice((1, 2, 50))
                case 5 if other:
                    start = chance.randrange(len(other))
                    data[begin:end] = other[start : start + chance.randrange(200)]
                case 6:
                    data[begin:begin] = self.text().encode()
                case _:
                    data[begin:end] = chance.randbytes(chance.choice((1, 4, 30)))
            del data[MOST_BYTES:]
        return bytes(data)

    def noise(self) -> bytes:
        """Random bytes."""
        return self.chance.randbytes(self.chance.choice((0, 1, 7, 60, 500)))

    def token(self) -> str:
        """A token of a subject, as the broker lets it pass: not empty, without dots, spaces and wildcards."""
        drop = str.maketrans("", "", ". *>\r\n\t")
        found = self.text().translate(drop).encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        return found[:500] or "%61"
