"""The database itself: connections, the write lock, group commit, migrations."""
