"""Further Python processes never import from the current directory."""

import subprocess
import sys

import pytest

from rankd.plugin.interpreter import python_command, python_environment


def test_a_module_of_the_current_directory_is_not_imported(tmp_path):
    (tmp_path / "json.py").write_text("raise SystemExit('from the current directory')")
    command = python_command("json.tool", "--help")
    environment = python_environment({"PYTHONPATH": ":."})
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert command[0] == sys.executable


@pytest.mark.parametrize(
    ("path", "left"), [("/opt/site", "/opt/site"), (":/opt/site", "/opt/site"), ("lib:/a:.:/b", "/a:/b"), ("", None)]
)
def test_only_absolute_entries_of_the_path_stay(path, left):
    assert python_environment({"PYTHONPATH": path, "A": "1"}) == {"A": "1", **({"PYTHONPATH": left} if left else {})}
    assert python_environment({"A": "1"}) == {"A": "1"}
