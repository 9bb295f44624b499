"""For authors of plugins: test suites that check whether a plugin follows its protocol.

In its own package, the plugin's test module has a class per plugin::

    from rankd.testing import FactorContract
    from my_package import Site

    class TestSite(FactorContract):
        factor = Site

pytest runs the inherited tests. They need no running rankd.
"""

from rankd.testing.factor import FactorContract, factor_context

__all__ = ["FactorContract", "factor_context"]
