"""rankd: a fair, explainable job queue for shared machines.

The package holds the mechanism; policies are plugins (``rankd_plugins``). Inside, imports go one way:
``cli -> {services, client} -> {store, bus, config} -> wire -> core``. See docs/architecture.md.
"""

__version__ = "0.1.0"
