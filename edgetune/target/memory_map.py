"""Memory map: flash and RAM of a board without operating system, by origin and size, as its reference manual has them.

RAM may have several regions, such as tightly coupled memory beside a larger SRAM. They are in the order of preference.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Annotated, Any, Self

from pydantic import (
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    StrictInt,
    StrictStr,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema

from edgetune.yaml_reader.checked import Checked
from edgetune.yaml_reader.quantities import ByteCount

RAM = "ram"
"""The name of `ram` where it is no region with a name of its own."""

GUARD_BYTES = 64
"""Bytes that the self-test watches on both sides of each buffer that the library writes."""

_ALIGNMENT = 64
"""Of a workspace, in bytes."""

_NAME = r"^[a-z][a-z0-9]{0,15}$"
"""No underscore: C names put words behind it."""


class MemoryRegion(Checked):
    """Contiguous memory of a board without operating system."""

    origin: Annotated[StrictInt, Field(ge=0)] = Field(description="First address.")
    bytes: ByteCount = Field(description="Size, such as 4MiB.")

    @property
    def end(self) -> int:
        """The address behind the last one."""
        return self.origin + self.bytes


class RamRegion(MemoryRegion):
    """RAM, in which a package may have a workspace."""

    workspace: ByteCount | None = Field(
        default=None,
        description="The most that a workspace may take of it; by default all of it, or in one of several regions "
        "all except for 128 bytes, which the self-test watches, from a multiple of 64 on.",
    )

    @model_validator(mode="after")
    def _has_room(self) -> Self:
        if self.workspace is not None and self.workspace > self.bytes:
            raise ValueError(f"has a 'workspace' of {self.workspace} bytes, more than its {self.bytes}")
        return self

    @model_serializer(mode="wrap")
    def _stated(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what is not stated: a package says only that."""
        return {key: value for key, value in handler(self).items() if value is not None}


class NamedRegion(RamRegion):
    """One of several regions of RAM."""

    name: Annotated[StrictStr, Field(pattern=_NAME)] = Field(
        description="Name in the C of a package, such as dtcm: lower-case letters and digits."
    )

    @property
    def room(self) -> int:
        """Bytes from the first address at which a workspace may begin, without what the self-test watches."""
        return self.bytes - -self.origin % _ALIGNMENT - 2 * GUARD_BYTES

    @property
    def workspace_bytes(self) -> int:
        """Bytes that a workspace may take of it."""
        return self.room if self.workspace is None else self.workspace


class _OrName:
    """In the schema, a region may also be the name of one."""

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [handler(core_schema), {"type": "string", "pattern": _NAME}]}


class MemoryMap(Checked):
    """Where the linker puts an image on a board without operating system; the image starts at the origin of flash."""

    flash: MemoryRegion = Field(description="Vector table, code and constants.")
    ram: Annotated[RamRegion, _OrName()] = Field(
        description="Variables, and the stack at its end: a piece of its own, or the name of one of `regions`. A piece "
        "of its own is the last region of workspaces, named ram."
    )
    regions: tuple[NamedRegion, ...] = Field(
        default=(),
        description="Regions of RAM for workspaces, the fastest first, each with a name. Without them, the workspace "
        "lies in `ram`.",
    )

    @model_validator(mode="before")
    @classmethod
    def _with_named_ram(cls, stated: object) -> object:
        """`ram` may be the name of a region."""
        if not isinstance(stated, Mapping) or not isinstance(name := stated.get(RAM), str):
            return stated
        listed = stated.get("regions")
        regions = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list | tuple) else []
        named = next((one for one in regions if one.get("name") == name), None)
        if named is None:
            raise ValueError(
                f"has 'ram' in region {name!r}, which 'regions' does not have: add it, or name another one"
            )
        return {**stated, RAM: {key: value for key, value in named.items() if key != "name"}}

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if not self.regions:
            return self
        pieces: list[tuple[str, MemoryRegion]] = [(one.name, one) for one in self.workspaces]
        pieces.append(("flash", self.flash))
        for (name, one), (other_name, other) in combinations(pieces, 2):
            if name == other_name:
                raise ValueError(f"has two regions of the name {name!r}: give each its own, none of them flash or ram")
            if one.origin < other.end and other.origin < one.end:
                raise ValueError(f"has regions {name!r} and {other_name!r} that share addresses: correct one of them")
        for region in self.workspaces:
            if region.name == RAM and not self.is_ram(region):
                raise ValueError("has a region of the name 'ram' that is not 'ram': give it another name")
            if region.room < (region.workspace or _ALIGNMENT):
                least = region.workspace or _ALIGNMENT
                raise ValueError(
                    f"has region {region.name!r} with room for {max(region.room, 0)} bytes beside the "
                    f"{2 * GUARD_BYTES} that the self-test watches, and a workspace of {least} needs more: "
                    "state a smaller 'workspace', or leave the region out"
                )
        return self

    @model_serializer(mode="wrap")
    def _without_nothing(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without `regions` where there are none."""
        return {key: value for key, value in handler(self).items() if value or key != "regions"}

    @property
    def workspaces(self) -> tuple[NamedRegion, ...]:
        """The regions that workspaces may lie in, the fastest first: at least one."""
        if any(self.is_ram(one) for one in self.regions):
            return self.regions
        ram = self.ram
        return (*self.regions, NamedRegion(name=RAM, origin=ram.origin, bytes=ram.bytes, workspace=ram.workspace))

    def is_ram(self, region: MemoryRegion) -> bool:
        """Whether `region` is that of variables and the stack."""
        return (region.origin, region.bytes) == (self.ram.origin, self.ram.bytes)

    @property
    def workspace_bytes(self) -> int:
        """Bytes that all workspaces of a package may take together."""
        if not self.regions:
            return self.ram.workspace or self.ram.bytes
        return sum(one.workspace_bytes for one in self.workspaces)
