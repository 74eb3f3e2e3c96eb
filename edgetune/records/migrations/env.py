"""How Alembic runs the revisions: in the transaction of the connection that it is given, which it neither ends."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
