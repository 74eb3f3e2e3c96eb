"""Workspaces: the memory that an instance of a package is given, one piece in each region of RAM that its plan uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgetune.graph.memory.plan import MemoryPlan
from edgetune.package.ident import unique_identifiers
from edgetune.target.memory_map import MemoryMap, NamedRegion


@dataclass(frozen=True)
class PackageWorkspace:
    """Memory that the caller gives an instance: `nbytes` in a region of RAM, "" where the target names none.

    `field` is what C calls it beside others, "" where it is the only one. Programs of the package have it in `section`,
    which their linker script puts into `piece`; both are empty where it lies in the RAM of variables.
    """

    region: str
    field: str
    nbytes: int
    section: str = ""
    piece: NamedRegion | None = None

    @property
    def macro(self) -> str:
        """What macros call it."""
        return f"WORKSPACE_{self.field.upper()}" if self.field else "WORKSPACE"

    @property
    def variable(self) -> str:
        """What programs call the memory."""
        return f"workspace_{self.field}" if self.field else "workspace"

    @property
    def called(self) -> str:
        """What comments call it."""
        return f"the workspace in {self.region}" if self.field else "the workspace"

    @property
    def attribute(self) -> str:
        """What puts a variable into the section, in front of its type."""
        return f'__attribute__((section("{self.section}"))) ' if self.section else ""

    @classmethod
    def all_of(cls, memory: Mapping[str, Any]) -> tuple[PackageWorkspace, ...]:
        """The workspaces of a package by what its manifest says of memory."""
        listed = memory.get("workspaces") or [{"bytes": memory.get("workspace_bytes", 0)}]
        return tuple(
            cls(one.get("region", ""), one.get("field", ""), one["bytes"], one.get("section", "")) for one in listed
        )

    def to_json(self) -> dict[str, object]:
        """Plain JSON values."""
        return {"region": self.region, "field": self.field, "bytes": self.nbytes, "section": self.section}


def workspaces_of(plan: MemoryPlan, nbytes: int, prefix: str, space: MemoryMap | None) -> tuple[PackageWorkspace, ...]:
    """The workspaces of a package by the arenas of its plan: one of `nbytes`, or one in each of several regions.

    The names of sections begin as those of variables without a value, which is what other linker scripts take them for.
    """
    if not plan.arenas:
        return (PackageWorkspace("", "", nbytes),)
    fields = unique_identifiers([arena.region for arena in plan.arenas], "region")
    pieces = {one.name: one for one in space.workspaces if not space.is_ram(one)} if space is not None else {}
    single = len(plan.arenas) == 1
    return tuple(
        PackageWorkspace(
            arena.region,
            "" if single else field,
            nbytes if single else arena.nbytes,
            f".bss.{prefix}_workspace_{field}" if arena.region in pieces else "",
            pieces.get(arena.region),
        )
        for arena, field in zip(plan.arenas, fields, strict=True)
    )
