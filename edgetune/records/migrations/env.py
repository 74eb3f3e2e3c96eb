"""How Alembic runs the revisions: in the transaction of the connection that it is given, which it neither ends."""

from __future__ import annotations

from alembic import context

options = context.config.attributes
context.configure(connection=options["connection"], version_table=options["version_table"])
context.run_migrations()
