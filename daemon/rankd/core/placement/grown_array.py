"""Arrays that grow by a few rows at a time, such as those with a row for each kind of jobs."""

from __future__ import annotations

from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

_Value = TypeVar("_Value", bound=np.generic)


def with_room(array: NDArray[_Value], n_rows: int, order: Literal["C", "F"] = "C") -> NDArray[_Value]:
    """The array if it has ``n_rows``, else a copy that has half as many more. Its other rows are 0.

    So a new row costs the same on average, however many there are. ``order``: of the copy in memory, as in numpy.
    """
    if len(array) >= n_rows:
        return array
    grown = np.zeros((n_rows + n_rows // 2 + 16, *array.shape[1:]), dtype=array.dtype, order=order)
    grown[: len(array)] = array
    return grown
