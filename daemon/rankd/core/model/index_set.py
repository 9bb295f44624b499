"""Sets of array indices as ascending ranges, and Slurm's notation for them: ``0-99``, ``1,3,7-9``, ``0-99:2``.

A set is a tuple of ranges. Each range ends before the next one begins. So the cost of an operation depends on the
number of ranges, not on the number of indices. Only ranges of a list that interleave (``0-8:2,1-9:2``) are written out
once, when the list is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from math import gcd, lcm

from rankd.core.errors import Refused

LARGEST_INDEX = 4_194_303
MOST_RANGES = 10_000
"""The most ranges of a set that is stored: its text is read and written with every change of its array."""

IndexSet = tuple[range, ...]
"""Ranges in ascending order; none is empty, all steps are positive, and none overlaps another one's span."""

EMPTY: IndexSet = ()


def count(indices: IndexSet) -> int:
    """The number of indices."""
    return sum(map(len, indices))


def each(indices: IndexSet) -> Iterator[int]:
    """The indices, ascending."""
    return chain.from_iterable(indices)


def contains(indices: IndexSet, index: int) -> bool:
    """Whether the index is in the set."""
    return any(index in part for part in indices)


def step_of(indices: IndexSet) -> int:
    """The step of a set that is one range; 1 for any other set."""
    return indices[0].step if len(indices) == 1 and len(indices[0]) > 1 else 1


def take(indices: IndexSet, number: int) -> tuple[IndexSet, IndexSet]:
    """The first ``number`` indices, and the rest."""
    taken: list[range] = []
    for place, part in enumerate(indices):
        if len(part) > number:
            first, rest = part[:number], part[number:]
            return ((*taken, first) if first else tuple(taken)), (rest, *indices[place + 1 :])
        taken.append(part)
        number -= len(part)
    return tuple(taken), EMPTY


def of(indices: Iterable[int]) -> IndexSet:
    """The set of these indices, in any order."""
    return _joined(range(index, index + 1) for index in sorted(set(indices)))


def without(indices: IndexSet, others: IndexSet) -> IndexSet:
    """The indices that are not in ``others``."""
    return _joined(_differences(indices, others))


def common(indices: IndexSet, others: IndexSet) -> IndexSet:
    """The indices that are in both sets."""
    return _joined(part for one, two in _pairs(indices, others) if (part := _intersection(one, two)))


def union(*sets: IndexSet) -> IndexSet:
    """The indices of all sets. Sets that interleave are written out."""
    parts = sorted((part for indices in sets for part in indices), key=lambda part: part.start)
    return _joined(_untangled(parts, may_repeat=True))


def written(indices: IndexSet) -> str:
    """The set in Slurm's notation: ``0-3,7,20-30:5``.

    >>> written(parse("7,0-3,20-30:5"))
    '0-3,7,20-30:5'
    """
    return ",".join(map(_written, indices))


def parse(text: str, most: int = LARGEST_INDEX + 1) -> IndexSet:
    """The set that a list describes. ``most``: the most indices that it may have.

    Raises:
        Refused: ``bad_array``, ``array_too_large``.
    """
    parts = sorted(map(_part, text.split(",")), key=lambda part: part.start)
    number = count(tuple(parts))
    if number > most:
        raise too_large(f"the array has {number} tasks; the most is {most}; submit several arrays")
    found = _joined(_untangled(parts, may_repeat=False))
    check_ranges(found)
    return found


def read(text: str | None) -> IndexSet:
    """The set that :func:`written` wrote; the empty set for None."""
    return tuple(map(_stored, text.split(","))) if text else EMPTY


def take_written(text: str, number: int) -> tuple[IndexSet, str]:
    """The first ``number`` indices of a written set, and the text of the rest. Reads no more of it than it takes."""
    taken: list[range] = []
    while text and number:
        head, _, rest = text.partition(",")
        part = _stored(head)
        taken.append(part[:number])
        if len(part) > number:
            left = _written(part[number:])
            return tuple(taken), f"{left},{rest}" if rest else left
        number -= len(part)
        text = rest
    return tuple(taken), text


def check_ranges(indices: IndexSet) -> None:
    """Check that the set has not too many ranges to be stored.

    Raises:
        Refused: ``array_too_large``.
    """
    if len(indices) > MOST_RANGES:
        raise too_large(f"the indices make {len(indices)} separate ranges; the most is {MOST_RANGES}")


def too_large(message: str) -> Refused:
    """The error of an array that is too large."""
    return Refused("array_too_large", message, "array", status=413)


def bad(message: str) -> Refused:
    """The error of a list that can't be read."""
    return Refused("bad_array", f"{message}; write 0-99, 1,3,7-9 or 0-99:2", "array")


def _number(text: str, item: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise bad(f"'{item[:40]}' is not an index or a range of indices")
    digits = text.lstrip("0")
    if len(digits) > len(str(LARGEST_INDEX)) or int(digits or "0") > LARGEST_INDEX:
        raise too_large(f"the index {text[:20]} is above {LARGEST_INDEX}, the largest")
    return int(digits or "0")


def _part(item: str) -> range:
    """One item of a list."""
    span, colon, step_text = item.partition(":")
    first_text, dash, last_text = span.partition("-")
    first = _number(first_text, item)
    if not dash:
        if colon:
            raise bad(f"'{item[:40]}' has a step but no range")
        return range(first, first + 1)
    last = _number(last_text, item)
    step = _number(step_text, item) if colon else 1
    if last < first:
        raise bad(f"the range '{item[:40]}' ends before it begins")
    if step == 0:
        raise bad(f"the range '{item[:40]}' has the step 0")
    return _closed(first, last, step)


def _closed(first: int, last: int, step: int) -> range:
    """The range with its bounds in normal form, so that equal ranges compare equal in every field."""
    n = (last - first) // step
    return range(first, first + n * step + 1, step) if n else range(first, first + 1)


def _stored(item: str) -> range:
    span, _, step = item.partition(":")
    first, dash, last = span.partition("-")
    return _closed(int(first), int(last), int(step or 1)) if dash else range(int(first), int(first) + 1)


def _written(part: range) -> str:
    first, last = part[0], part[-1]
    if first == last:
        return str(first)
    if len(part) == 2 and part.step > 1:
        return f"{first},{last}"
    return f"{first}-{last}" if part.step == 1 else f"{first}-{last}:{part.step}"


def _untangled(parts: list[range], *, may_repeat: bool) -> Iterator[range]:
    """The parts, sorted by their first index, as parts of which each ends before the next one begins."""
    place = 0
    while place < len(parts):
        end, last = place + 1, parts[place][-1]
        while end < len(parts) and parts[end].start <= last:
            last = max(last, parts[end][-1])
            end += 1
        if end == place + 1:
            yield parts[place]
        else:
            yield from _written_out(parts[place:end], may_repeat=may_repeat)
        place = end


def _written_out(parts: list[range], *, may_repeat: bool) -> Iterator[range]:
    import numpy as np  # noqa: PLC0415 - a slow import that only such lists need

    every = np.sort(np.concatenate([np.arange(part.start, part.stop, part.step) for part in parts]))
    gaps = np.diff(every)
    if not may_repeat and len(again := np.flatnonzero(gaps == 0)):
        raise bad(f"the index {every[again[0]]} is named twice")
    every = every[np.append(True, gaps != 0)]
    gaps = np.diff(every)
    bends = np.flatnonzero(gaps[1:] != gaps[:-1]) + 1
    if len(bends) > 2 * MOST_RANGES:
        raise too_large(f"the indices make more than {MOST_RANGES} separate ranges")
    begins = [0, *bends.tolist()]
    ends = [*bends.tolist(), len(every) - 1]
    start = 0
    for begin, end in zip(begins, ends, strict=True):
        if begin < start and end <= start:
            continue
        first = max(begin, start)
        step = int(every[first + 1] - every[first]) if first < end else 1
        yield _closed(int(every[first]), int(every[end]), step)
        start = end + 1
    if start < len(every):
        yield range(int(every[start]), int(every[start]) + 1)


def _joined(parts: Iterable[range]) -> IndexSet:
    """The set of parts that ascend and don't overlap. Parts that continue each other become one."""
    found: list[range] = []
    for part in parts:
        found[-1:] = _together(found[-1], part) if found else [part]
    return tuple(map(_plain, found))


def _plain(part: range) -> range:
    return range(part[0], part[0] + 1) if len(part) == 1 else range(part[0], part[-1] + 1, part.step)


def _together(one: range, two: range) -> list[range]:
    """Two neighbours as one range if they are one; else both."""
    gap = two[0] - one[-1]
    fits_one, fits_two = len(one) == 1 or one.step == gap, len(two) == 1 or two.step == gap
    if fits_one and fits_two:
        return [range(one[0], two[-1] + 1, gap)]
    if len(one) == 2 and one.step > 1 and gap == 1 and fits_two:  # 1,3 and 4 are 1 and 3-4
        return [one[:1], range(one[-1], two[-1] + 1, 1)]
    return [one, two]


def _pairs(indices: IndexSet, others: IndexSet) -> Iterator[tuple[range, range]]:
    """Ranges of both sets whose spans overlap, ascending."""
    first = 0
    for part in indices:
        while first < len(others) and others[first][-1] < part[0]:
            first += 1
        for other in islice(others, first, None):
            if other[0] > part[-1]:
                break
            yield part, other


def _intersection(one: range, two: range) -> range:
    """The indices in both ranges, which are a range again; its step is the least common multiple."""
    low, high = max(one[0], two[0]), min(one[-1], two[-1])
    shared, step = gcd(one.step, two.step), lcm(one.step, two.step)
    apart, rest = divmod(two[0] - one[0], shared)
    if rest:
        return range(0)
    cycle = two.step // shared
    begin = one[0] + one.step * (apart * pow(one.step // shared, -1, cycle) % cycle)  # the congruences' solution
    return range(begin - (begin - low) // step * step, high + 1, step)


def _differences(indices: IndexSet, others: IndexSet) -> Iterator[range]:
    removed: dict[int, list[range]] = {}
    for one, two in _pairs(indices, others):
        if part := _intersection(one, two):
            removed.setdefault(one[0], []).append(part)
    for part in indices:
        yield from _minus(part, removed.get(part[0], []))


def _minus(part: range, gone: list[range]) -> Iterator[range]:
    """A range without ranges of its own indices, which ascend and don't overlap."""
    at = 0
    for hole in gone:
        first, last = part.index(hole[0]), part.index(hole[-1])
        if first > at:
            yield part[at:first]
        apart = hole.step // part.step if len(hole) > 1 else 1
        if apart == 2:
            yield part[first + 1 : last : 2]
        elif apart > 2:
            for index in hole[:-1]:
                begin = part.index(index) + 1
                yield part[begin : begin + apart - 1]
        at = last + 1
    if at < len(part):
        yield part[at:]
