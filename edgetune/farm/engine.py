"""Engine: who runs which cell when. The rows of the database say what is to be done; `run_cell` does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Protocol

from edgetune.errors import NightFault
from edgetune.farm.cells import Cell
from edgetune.farm.farm_file import Farm
from edgetune.farm.night_store import Night, NightCell, NightStore

OnVerdict = Callable[[Night], None]
"""Called after each verdict of a night, and each begin of a cell; it writes the page."""


class Engine(Protocol):
    """Runs the cells of a night that have no verdict yet.

    `cancel` and `drain` are rows of the database, which every engine obeys within seconds.
    """

    def begin(self, facts: Mapping[str, Any], cells: Sequence[Cell]) -> Night | None:
        """Write a new night with its cells in their order; None, and nothing written, where its name is taken."""

    def work(self, night: Night, on_verdict: OnVerdict) -> None:
        """Run all cells of `night`; return when each has a verdict, or its window is over.

        Raises NightFault where this host may not work for the night, and what `on_verdict` raises. An exception in this
        process (KeyboardInterrupt) ends the running cells within seconds; the same call goes on.
        """

    def rerun(self, night: Night, row: NightCell) -> None:
        """Forget the verdict of a cell, so that it is measured again in the same night."""

    def serve(self) -> None:
        """Run cells of all nights that other hosts begin, until this process is ended. Raises NightFault."""


def check_libraries() -> None:
    """Raises NightFault where a library of the gate, of the page or of drift is not installed."""
    missing = [name for name in ("scipy", "matplotlib", "ruptures") if find_spec(name) is None]
    if missing:
        raise NightFault(f"nights need {', '.join(missing)}: pip install 'edgetune[nightly]'")


def engine_of(farm: Farm, store: NightStore, say: Callable[[str], None] = lambda _: None) -> Engine:
    """The engine that a farm file names. Raises NightFault where it cannot work here or with the farm's database."""
    check_libraries()
    return _ENGINES[farm.content.engine](farm, store, say)


def _local(farm: Farm, store: NightStore, _: Callable[[str], None]) -> Engine:
    from edgetune.farm.local_engine import LocalEngine

    return LocalEngine(farm, store)


def _procrastinate(farm: Farm, store: NightStore, say: Callable[[str], None]) -> Engine:
    try:
        from edgetune.farm.procrastinate_engine import ProcrastinateEngine
    except ImportError as error:
        name = error.name or "psycopg[binary]"  # psycopg finds no libpq, and names no module
        raise NightFault(f"the engine 'procrastinate' needs {name}: pip install 'edgetune[nightly]'") from error
    return ProcrastinateEngine(farm, store, say)


_ENGINES: Mapping[str, Callable[[Farm, NightStore, Callable[[str], None]], Engine]] = {
    "local": _local,
    "procrastinate": _procrastinate,
}
