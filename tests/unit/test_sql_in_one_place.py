"""SQL is written in ``store/`` and in the migrations. The two exceptions have a reason beside them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("daemon", "plugins")
ALLOWED = (
    "daemon/rankd/store/",
    "plugins/rankd_plugins/adapters/sql.py",  # it reads other people's databases
    "daemon/rankd/plugin/worker.py",  # it tries a factor's formula in an empty database in memory
)

STATEMENT = re.compile(
    r"^\s*(SELECT\s|INSERT\s+(OR\s+\w+\s+)?INTO\s|REPLACE\s+INTO\s|UPDATE\s+\S+\s+SET\s|DELETE\s+FROM\s|PRAGMA\s"
    r"|(CREATE|DROP|ALTER)\s+(TEMP\s+|UNIQUE\s+)?(TABLE|VIEW|INDEX|TRIGGER)\s|WITH\s+(RECURSIVE\s+)?\w+.*\sAS\s*\("
    r"|ATTACH\s|VACUUM\b|ANALYZE\b|(BEGIN|COMMIT|ROLLBACK)(\s+(IMMEDIATE|EXCLUSIVE|DEFERRED|TRANSACTION))?\s*;?\s*$)"
    r"|\sFROM\s+\S+\s+(\w+\s+)?(WHERE|JOIN|ORDER\s+BY|GROUP\s+BY)\s|\sON\s+CONFLICT\s*\(",
    re.DOTALL,
)


def sql_texts(path: Path) -> list[str]:
    """The strings of a module that are SQL statements or the larger part of one, with their line numbers."""
    tree = ast.parse(path.read_text())
    docstrings = set(map(id, _docstrings(tree)))
    return [
        f"{path}:{node.lineno}: {node.value.strip()[:60]!r}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
        if STATEMENT.search(node.value)
    ]


def _docstrings(tree: ast.Module) -> Iterator[ast.expr]:
    """Docstrings of modules, classes and functions, and the strings below attributes that describe them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            yield node.value


def _modules() -> Iterator[str]:
    for source in SOURCES:
        for path in sorted((ROOT / source).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("name", [name for name in _modules() if not name.startswith(ALLOWED)])
def test_only_the_store_has_sql(name):
    found = sql_texts(ROOT / name)
    assert not found, "move these statements to daemon/rankd/store (feed, look or record)"


@pytest.mark.parametrize(
    "text",
    [
        'connection.execute("SELECT 1")',
        'sql = f"SELECT {names} FROM jobs j WHERE j.state = 1"',
        'sql = """\nINSERT OR REPLACE INTO t VALUES (1)"""',
        'sql = "UPDATE t SET a = 1"',
        'sql = "DELETE FROM t"',
        'c.execute("PRAGMA query_only = ON")',
        'c.execute("BEGIN IMMEDIATE")',
        'c.execute("ROLLBACK")',
        'sql = ("SELECT a," "b FROM t")',
        'sql = "SELECT "',
        'sql = f"{start} FROM jobs WHERE id = ?"',
        'sql = "CREATE TABLE t (a)"',
        'sql = "WITH x AS (SELECT 1) SELECT * FROM x"',
    ],
)
def test_the_scan_finds_sql(text, tmp_path):
    path = tmp_path / "module.py"
    path.write_text(text)
    assert sql_texts(path)


@pytest.mark.parametrize(
    "text",
    [
        '"""SELECT in a docstring"""',
        'print("Begin with the first job, then update it")',
        'raise ValueError("select a node from these: " + names)',
        'message = "Jobs from a queue where nothing runs"',
        'def f():\n    """SELECT 1"""',
    ],
)
def test_the_scan_leaves_prose_alone(text, tmp_path):
    path = tmp_path / "module.py"
    path.write_text(text)
    assert not sql_texts(path)
