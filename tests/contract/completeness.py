"""What the store's packages define, and what the contract tests use of it, both read from the source."""

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path

HERE = Path(__file__).parent
PACKAGES = ("rankd.store.record", "rankd.store.feed", "rankd.store.look")
RUNS_SQL = frozenset({"Connection", "Reader", "Query", "sqlite3.Connection", "AsyncConnection"})
"""Types of the parameter through which a function reaches the database."""
GIVES_STAGES = frozenset({"Stage", "Stage | None", "Iterator[Stage]"})
"""Types of a result that runs in a transaction later."""


def verbs():
    """(module, name) of each public function, and of each public method as (module, ``Class.name``), with SQL."""
    for package in PACKAGES:
        path = importlib.import_module(package).__path__
        for found in pkgutil.iter_modules(path, f"{package}."):
            module = importlib.import_module(found.name)
            yield from _of_module(module)


def _of_module(module):
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(value) and runs_sql(value):
            yield module.__name__, name
        elif inspect.isclass(value):
            methods = [method for method, own in vars(value).items() if inspect.isfunction(own) and runs_sql(own)]
            yield from ((module.__name__, f"{name}.{method}") for method in methods if not method.startswith("_"))


def runs_sql(function):
    """Whether it takes a connection, or returns what runs on one."""
    types = dict(function.__annotations__)
    return types.pop("return", None) in GIVES_STAGES or not RUNS_SQL.isdisjoint(types.values())


def used():
    """(module, name) of what the tests of this folder import from the store and use in a test; methods by their name.

    The helpers in :mod:`contract.store` and :mod:`contract.world` count: every test runs on what they have written.
    """
    found = set()
    for path in sorted(HERE.glob("*.py")):
        if path.name != Path(__file__).name:
            found |= used_by(ast.parse(path.read_text(encoding="utf-8")))
    return found


def used_by(tree):
    """The same of one file."""
    imported = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("rankd.store"):
            imported |= {name.asname or name.name: (node.module, name.name) for name in node.names}
    loaded = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in imported:
            loaded.add(imported[node.id])
        elif isinstance(node, ast.Attribute):
            loaded.add((None, node.attr))
            if isinstance(node.value, ast.Name) and node.value.id in imported:
                module, name = imported[node.value.id]
                loaded.add((f"{module}.{name}", node.attr))
    return loaded


def missing():
    """The verbs that no contract test uses."""
    present = used()
    return [
        f"{module}.{name}"
        for module, name in verbs()
        if (module, name) not in present and not ("." in name and _uses_method(module, name, present))
    ]


def _uses_method(module, name, present):
    """Whether the tests use something of the module, and call a method of this name."""
    method = name.split(".")[1]
    return (None, method) in present and any(used_module == module for used_module, _ in present)
