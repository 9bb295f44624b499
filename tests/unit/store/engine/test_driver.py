"""One process uses one copy of SQLite: two of them would drop each other's locks on a file."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from rankd.store.engine.driver import sqlite3

ROOT = Path(__file__).parents[4]
COPIES = {"sqlite3", "pysqlite3", "aiosqlite", "apsw"}
ALLOWED = {
    "daemon/rankd/store/engine/driver.py",
    "daemon/rankd/plugin/worker.py",  # a database in memory, in a process that opens no other
    "tests/engine_torture/worker.py",  # forks that open the file with this copy alone
}


def imported(path):
    """The names of all modules that a file imports anywhere."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").partition(".")[0]


def test_sqlite_is_imported_from_the_driver_module_alone():
    files = [file for folder in ("daemon", "plugins", "tests", "benchmarks") for file in (ROOT / folder).rglob("*.py")]
    found = {str(file.relative_to(ROOT)) for file in files if COPIES & set(imported(file))}
    assert found - ALLOWED == set()


@pytest.mark.parametrize("start", ["", "import sys; sys.modules['pysqlite3'] = None\n"])
def test_a_process_that_uses_the_database_has_one_copy_of_sqlite_on_it(start, tmp_path):
    """With the wheel and, as on other platforms, without it."""
    program = start + (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from rankd.store.engine.reading import open_for_reading\n"
        "from rankd.store.engine.url import open_database\n"
        "from rankd.store.schema.migration import upgrade\n"
        "async def main(path):\n"
        "    async with open_database(path) as database:\n"
        "        await upgrade(database)\n"
        "        await database.read(lambda c: c.exec_driver_sql('SELECT 1').all())\n"
        "        await database.checkpoint()\n"
        "        open_for_reading(path).close()\n"
        "asyncio.run(main(Path(sys.argv[1])))\n"
        "print(*sorted({'sqlite3', '_sqlite3', 'pysqlite3', 'pysqlite3._sqlite3'}"
        " & {name for name, module in sys.modules.items() if module}))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "rankd.db")]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert len([name for name in loaded if name.endswith("_sqlite3")]) == 1, loaded


def test_null_and_booleans_are_bound_without_a_search_for_an_adapter():
    connection = sqlite3.connect(":memory:")
    assert connection.execute("SELECT ?, ?, typeof(?)", (None, True, False)).fetchone() == (None, 1, "integer")
    assert {kind for kind, _ in sqlite3.adapters} >= {type(None), bool}
