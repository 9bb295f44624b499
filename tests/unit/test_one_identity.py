"""No process of rankd changes its identity and changes it back: only a job's own child takes its user's, for good.

An effective user belongs to the whole process. While it is changed, everything else that the process does happens with
the wrong rights (docs/decisions/0013-a-helper-forks-the-jobs.md).
"""

import ast
from pathlib import Path

import rankd

SOURCE = Path(rankd.__file__).parent
CHANGES = frozenset(
    {"setuid", "seteuid", "setreuid", "setresuid", "setgid", "setegid", "setregid", "setresgid", "setgroups",
     "initgroups", "setfsuid", "setfsgid"}
)  # fmt: skip
HELPER = "services/keeper/helper.py"
FILE_READER = "services/agent/file_reader.py"
"""A child that reads a job's output as its user; it ends with that."""


def changes_in(path: Path) -> list[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return [node.attr for node in nodes if isinstance(node, ast.Attribute) and node.attr in CHANGES]


def test_only_the_child_that_becomes_a_job_changes_its_identity():
    found = {
        path.relative_to(SOURCE).as_posix(): changes for path in SOURCE.rglob("*.py") if (changes := changes_in(path))
    }
    assert found == {name: ["setgroups", "setresgid", "setresuid"] for name in (HELPER, FILE_READER)}
