"""Who accepted which package of a cell, when and because of what."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import select

from edgetune.farm.night_store import NightCell, NightStore
from edgetune.farm.night_tables import accepted
from edgetune.records.database import Database


class Acceptance(BaseModel):
    """A package of a cell that was accepted: its night, by whom and when (UTC), and because of what."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    night: str
    by: str = Field(description="A user, or edgetune where nothing had to be decided.")
    utc: str
    because: str = Field(description="What a user wrote; of edgetune a clause such as: it was faster.")
    package: str = Field(description="Its SHA-256 in the archive.")

    @property
    def by_hand(self) -> bool:
        """Whether somebody decided it."""
        return self.by != BY_ITSELF


BY_ITSELF = "edgetune"


NO_PACKAGE = "nothing to compare with"
_FIRST = "it was the first one of this cell with these settings"


def because_of(reason: str) -> str:
    """Why edgetune accepted a package by itself, as a clause after `because`, from the reason of its verdict.

    What is such a clause already stays as it is.
    """
    if reason == f"{NO_PACKAGE} yet":
        return _FIRST
    lost = reason.removeprefix(f"{NO_PACKAGE}: ")
    if lost != reason:
        return f"there was {NO_PACKAGE} any more: {lost}"
    return "it was faster" if reason in ("", "it is faster") else reason


class Acceptances:
    """All acceptances of a farm."""

    def __init__(self, store: NightStore, farm: str) -> None:
        columns = (accepted.c.cell, *(accepted.c[name] for name in Acceptance.model_fields))
        self._by_cell: dict[str, list[Acceptance]] = {}
        with store.database.reading() as connection:
            rows = connection.execute(select(*columns).where(accepted.c.farm == farm).order_by(accepted.c.id))
            for row in rows.mappings():
                one = Acceptance(**{name: row[name] for name in Acceptance.model_fields})
                if not one.by_hand:  # earlier versions wrote the reason of the verdict
                    one = one.model_copy(update={"because": because_of(one.because)})
                self._by_cell.setdefault(row["cell"], []).append(one)

    def compared_with(self, row: NightCell) -> Acceptance | None:
        """That of the package with which a night compared a cell."""
        facts = row.verdict.facts.get("accepted", {}) if row.verdict else {}
        own = self._by_cell.get(row.cell.name, ())
        return _last([one for one in own if (one.night, one.package) == (facts.get("night"), facts.get("package"))])

    def of(self, row: NightCell, night: str) -> Acceptance | None:
        """That of the package that a cell got in a night."""
        package = row.verdict.package if row.verdict else ""
        own = self._by_cell.get(row.cell.name, ())
        return _last([one for one in own if package and (one.night, one.package) == (night, package)])


def accepted_on(database: Database, farm: str, board: str) -> list[str]:
    """Digests of all packages that were ever accepted on a board, oldest first. Raises DatabaseError."""
    rows = select(accepted.c.cell, accepted.c.package).where(accepted.c.farm == farm).order_by(accepted.c.id)
    with database.reading() as connection:
        found = [package for cell, package in connection.execute(rows) if cell.rpartition("@")[2] == board]
    return list(dict.fromkeys(found))


def _last(found: Sequence[Acceptance]) -> Acceptance | None:
    return found[-1] if found else None
