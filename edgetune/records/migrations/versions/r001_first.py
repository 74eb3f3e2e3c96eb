"""The tables of the first version. Databases of its time have no row of Alembic, and are recognised by their version.

`ends` and `start_origins` came on the first write that needed them, so they may be missing.
"""

from __future__ import annotations

revision = "001"
down_revision = None


def upgrade() -> None:
    """Nothing: a database is made with its newest tables."""
