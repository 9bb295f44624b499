"""The collection that every table belongs to: Alembic and the drift test read it."""

from sqlalchemy import MetaData

metadata = MetaData()
