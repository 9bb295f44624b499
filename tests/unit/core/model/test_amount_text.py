"""Amounts of resources as people read them."""

import pytest

from rankd.core.model.amount_text import compared, shown_all, shown_amount, shown_bytes


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0"),
        (1, "1"),
        (1023, "1023"),
        (2**10, "1K"),
        (1500 * 2**20, "1.465G"),
        (64 * 2**30, "64G"),
        (2**50, "1024T"),
    ],
)
def test_memory_is_in_the_largest_unit_that_it_fills(amount, text):
    assert shown_bytes(amount) == text


@pytest.mark.parametrize(
    ("kind", "amount", "text"),
    [("vcore", 100, "0.1"), ("vcore", 64_000, "64"), ("gpu", 1_000_000, "1000000"), ("memory", 2**33, "8G")],
)
def test_other_amounts_are_numbers_as_users_write_them(kind, amount, text):
    assert shown_amount(kind, amount) == text


def test_two_amounts_that_differ_have_different_texts():
    assert compared("memory", 2 * 2**30, 2**30) == ("2G", "1G")
    assert compared("memory", 2**30 + 1, 2**30) == ("1073741825", "1073741824")
    assert compared("memory", 2**30, 2**30) == ("1G", "1G")
    assert compared("gpu", 3, 2) == ("3", "2")


def test_the_amounts_of_a_record_are_a_list():
    record = {"vcore": 1.5, "memory": 34359738368, "gpu": 2, "gpu:a100": None, "licence": "2"}
    assert shown_all(record) == "vcore 1.5, memory 32G, gpu 2, gpu:a100 -, licence 2"
