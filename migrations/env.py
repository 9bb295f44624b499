"""Alembic's environment. ``rankd db upgrade`` and ``rankd up`` pass it an open connection."""

from alembic import context

from rankd.store.schema.generation_table import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    render_as_batch=False,
    transactional_ddl=True,
    version_table="schema_version",
)
with context.begin_transaction():
    context.run_migrations()
