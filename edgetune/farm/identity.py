"""Identity of a farm: the database knows each name of a farm by one identity, which the farm's folder keeps.

Two farms of one name would read each other's nights. A name that is taken goes to another folder in two cases: the farm
file states it as `name`, or a further host joins.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import select

from edgetune.errors import NightFault
from edgetune.farm.farm_file import Farm
from edgetune.farm.folder import claim_folder, identity_of, keep_identity
from edgetune.farm.night_store import NightStore
from edgetune.farm.night_tables import farms, nights
from edgetune.records.schema import insert_unless_known


def claim(farm: Farm, store: NightStore, *, joins: bool = False) -> list[str]:
    """Note that folder and name are those of a farm; return a sentence for each that was another one's before.

    A further host `joins` the farm that has the name, with a folder of its own, once `run` has given it away. Raises
    NightFault where another farm has the folder or the name, DiskFull, and DatabaseError.
    """
    said = [claim_folder(farm), _claim_name(farm, store, joins=joins)]
    return [sentence for sentence in said if sentence]


def _claim_name(farm: Farm, store: NightStore, *, joins: bool) -> str:
    own, known = identity_of(farm.folder), _identities(store)
    if farm.name not in known:
        if joins:
            return ""
        _refuse_other_farms(farm, store)
        with store.database.writing() as connection:
            insert_unless_known(connection, farms, {"name": farm.name, "identity": own}, "one_farm_per_name")
        known = _identities(store)  # another host may have been faster
    taken = known[farm.name]
    if taken == own:
        return ""
    if own in known.values() or not (joins or farm.content.name):
        raise NightFault(
            f"{farm.db} has a farm '{farm.name}' with another folder than {farm.folder}: write `name: {farm.name}` in "
            f"{farm.path} to go on with its nights, or another name"
        )
    keep_identity(farm, taken)
    return f"{farm.folder} goes on with the nights of farm '{farm.name}' in {farm.db}"


def _identities(store: NightStore) -> dict[str, str]:
    with store.database.reading() as connection:
        return {row.name: row.identity for row in connection.execute(select(farms.c.name, farms.c.identity))}


def _refuse_other_farms(farm: Farm, store: NightStore) -> None:
    """Raise NightFault where the database in a farm's own folder has nights of other farms alone: the note was lost."""
    if not isinstance(farm.db, Path) or farm.db.parent != farm.folder:
        return  # several farms may share it
    with store.database.reading() as connection:
        others = sorted(set(connection.scalars(select(nights.c.farm))))
    if others and farm.name not in others:
        raise NightFault(
            f"{farm.db} has no night of farm '{farm.name}', but those of {', '.join(others)}: write "
            f"`name: {others[0]}` in {farm.path} to go on with them, or give another 'folder'"
        )
