"""The module that Alembic runs, inside the transaction that `storage.db.migrate` has opened."""

from alembic import context

from storage.db.tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,  # SQLite can alter little of a table, so it is copied
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
