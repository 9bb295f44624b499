"""SQL is written in ``store/`` and in the migrations. The two exceptions have a reason beside them.

Within the store, verbs and feeds use SQLAlchemy Core over the declared tables. :data:`TEXT` names those that use text.
"""

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

STORE = ROOT / "daemon" / "rankd" / "store"
CORE = ("record", "feed")
_COMMAND_LINE = "the command line runs it too, and must not import SQLAlchemy"
_HOT = "a hot path; its docstring has the figure"
TEXT = {
    "record/adapter.py": _COMMAND_LINE,
    "record/all_nodes.py": _COMMAND_LINE,
    "record/configuration.py": _COMMAND_LINE,
    "record/given_value.py": _COMMAND_LINE,
    "record/user_group.py": _COMMAND_LINE,
    "feed/factor_value.py": _HOT,
    "feed/job.py": _HOT,
    "feed/new_pending.py": _HOT,
    "feed/occupancy.py": _HOT,
    "feed/order.py": _HOT,
    "feed/pending.py": _HOT,
    "feed/pending_kind.py": _HOT,
}
"""Files of verbs and feeds that use text, and why."""
FIGURE = re.compile(r"\d[\d,.]* (s|ms|µs)\b")
ENGINES_OWN = re.compile(r"\bjson_each\b|\bINDEXED BY\b|\bCROSS JOIN\b", re.IGNORECASE)
"""Words that each database has in its own way. ``store/engine`` has names for them."""

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


def texts(path: Path) -> Iterator[str]:
    """All strings of a module except docstrings."""
    tree = ast.parse(path.read_text())
    docstrings = set(map(id, _docstrings(tree)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


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


def _of_store(*rooms: str) -> list[str]:
    return sorted(path.relative_to(STORE).as_posix() for room in rooms for path in (STORE / room).glob("*.py"))


@pytest.mark.parametrize("name", _of_store(*CORE))
def test_verbs_and_feeds_use_core_unless_a_reason_is_named(name):
    found = sql_texts(STORE / name)
    assert bool(found) == (name in TEXT), found or f"{name} has no text any more: take it out of TEXT"


@pytest.mark.parametrize("name", TEXT)
def test_a_file_with_text_has_a_figure(name):
    assert FIGURE.search(ast.get_docstring(ast.parse((STORE / name).read_text())))


@pytest.mark.parametrize("name", _of_store("record", "feed", "look", "schema"))
def test_words_of_one_database_are_in_the_engine(name):
    assert not [text for text in texts(STORE / name) if ENGINES_OWN.search(text)]


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
