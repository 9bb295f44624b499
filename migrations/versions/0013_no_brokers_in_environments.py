"""Removes the variable that names the broker from stored requests, and makes the file private to its owner.

Revision: 0013
Revises: 0012
"""

from contextlib import suppress
from pathlib import Path

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        "UPDATE jobs SET request = json_remove(request, '$.env.RANKD_NATS')"
        " WHERE instr(request, 'RANKD_NATS') AND json_type(request, '$.env.RANKD_NATS') IS NOT NULL"
    )
    for _, _, path in op.get_bind().exec_driver_sql("PRAGMA database_list").all():
        if not path:  # in memory, or temporary: Path("") would be the current directory
            continue
        for name in (path, f"{path}-wal", f"{path}-shm"):
            with suppress(FileNotFoundError, PermissionError):  # not there, or another user's file
                Path(name).chmod(Path(name).stat().st_mode & 0o700)


def downgrade() -> None:
    """Do nothing: the removed values are not known any more."""
