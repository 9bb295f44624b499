"""The order of a full generation as rows."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.core.model.int32 import INT32_MAX, INT32_MIN
from rankd.store.record.order_rows import fixed_width, json_list
from rankd.store.schema.rank_view import PRIORITY_WIDTH, RANK_WIDTH


@given(st.lists(st.integers(INT32_MIN, INT32_MAX)))
def test_every_priority_can_be_cut_out_and_read(values):
    text = fixed_width(np.array(values, dtype=np.int64), PRIORITY_WIDTH).decode()
    cut = [text[at : at + PRIORITY_WIDTH] for at in range(0, len(text), PRIORITY_WIDTH)]
    assert [int(number) for number in cut] == values


@pytest.mark.parametrize("rank", [0, 1, 10**RANK_WIDTH - 1])
def test_ranks_are_padded_with_zeros(rank):
    assert fixed_width(np.array([rank]), RANK_WIDTH) == f"{rank:08}".encode()


@given(st.lists(st.integers(0, 2**63 - 1)))
def test_ids_are_a_json_list(values):
    assert json.loads(json_list(np.array(values, dtype=np.int64))) == values
