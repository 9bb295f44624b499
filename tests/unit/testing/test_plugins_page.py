"""The factor and the test of docs/how-to/plugins.md do what the page says."""

import re
from pathlib import Path

import numpy as np
import pytest

from rankd.core.model.setting import PrioritySettings
from rankd.testing import FactorContract, factor_context

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "plugins.md").read_text(encoding="utf-8")
FACTOR, SUITE = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
TESTS = [name for name in dir(FactorContract) if name.startswith("test_")]


@pytest.fixture(scope="module")
def page():
    names = {}
    exec(FACTOR, names)
    exec(SUITE.replace("from my_package.factors import UrgentHours\n", ""), names)
    return names


@pytest.mark.parametrize("test", TESTS)
def test_its_factor_passes_its_suite(page, test):
    getattr(page["TestUrgentHours"](), test)()


def test_its_factor_gives_what_its_docstring_says(page):
    context = factor_context(0)
    values = page["UrgentHours"](PrioritySettings()).values(context)
    limits = context.jobs.time_limits_s
    assert set(values[limits <= 3600]) == {1.0}
    assert set(values[np.isnan(limits)]) == {0.0}
    assert set(values[limits > 86400]) == {0.0}
