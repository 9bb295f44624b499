"""For those who write plugins: suites of tests that say whether a plugin keeps its protocol.

A test module of a plugin's package has a class per plugin::

    from rankd.testing import FactorContract
    from my_package import Site

    class TestSite(FactorContract):
        factor = Site

pytest finds the tests that it inherits. Nothing else of a running rankd is needed.
"""

from rankd.testing.factor import FactorContract, factor_context

__all__ = ["FactorContract", "factor_context"]
