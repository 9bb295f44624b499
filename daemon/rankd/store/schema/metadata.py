"""The metadata of all tables. Alembic and the drift test read it."""

from sqlalchemy import MetaData

metadata = MetaData()
