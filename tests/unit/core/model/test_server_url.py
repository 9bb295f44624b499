import pytest

from rankd.core.model.server_url import is_postgres


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://rankd@db/rankd", True),
        ("postgres://db", True),
        ("sqlite:///rankd.db", False),
        ("rankd.db", False),
        ("postgresql", False),
    ],
)
def test_a_url_names_a_server_or_not(url, expected):
    assert is_postgres(url) is expected
