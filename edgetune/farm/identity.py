"""Identity of a farm: the database knows each name of a farm by one identity, which the farm's folder keeps.

Two farms of one name would read each other's nights. So a folder that the database does not know takes over a name
only where it is told to.
"""

from __future__ import annotations

from sqlalchemy import insert, select

from edgetune.errors import NightFault
from edgetune.farm.farm_file import Farm
from edgetune.farm.folder import identity_of, keep_identity
from edgetune.farm.night_store import NightStore
from edgetune.farm.night_tables import farms


def claim_name(farm: Farm, store: NightStore, *, joins: bool = False) -> str:
    """Note that the name of a farm is that of its folder; return what that changes, "" where it was so before.

    A further host `joins` the farm that has the name already, with a folder of its own. So does a farm file that states
    its `name`. Raises NightFault where another farm has the name, and DatabaseError.
    """
    own = identity_of(farm.folder)
    with store.database.writing() as connection:
        store.database.hold_schema(connection)  # two hosts may begin at once
        known = {row.name: row.identity for row in connection.execute(select(farms.c.name, farms.c.identity))}
        if farm.name not in known and not joins:
            connection.execute(insert(farms).values(name=farm.name, identity=own))
    taken = known.get(farm.name, own)
    if taken == own:
        return ""
    if own in known.values() or not (joins or farm.content.name):
        raise NightFault(
            f"{farm.db} has a farm '{farm.name}' with another folder than {farm.folder}: write `name: {farm.name}` in "
            f"{farm.path} to go on with its nights, or another name"
        )
    keep_identity(farm, taken)
    return f"{farm.folder} goes on with the nights of farm '{farm.name}' in {farm.db}"
