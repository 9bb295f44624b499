"""The database: tables (plural, internal), views (singular, stable: users query them), and verbs.

All writes go through :meth:`Database.write`: one exclusive lock per file, short transactions, events in the
same transaction as what they tell. See docs/reference/database.md.
"""
