"""The database: tables (plural, internal), views (singular, stable: users query them), and verbs that change it.

All writes go through :meth:`Database.write`: one exclusive lock per file, short transactions, and events in the same
transaction as the changes that they report. See docs/reference/database.md.
"""
