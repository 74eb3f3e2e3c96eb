"""Access to single elements of buffers: in memory, or in the registers that a small buffer became."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tvm import tirx

from edgetune.codegen.context import Context, Place
from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.literals import plus
from edgetune.codegen.text import LOOSE, Text, cast
from edgetune.errors import KernelFailed


class ElementPrinter:
    """The part of the scalar printer that reads and writes memory. `lane` as in ScalarPrinter."""

    context: Context
    lane: int | str | None

    if TYPE_CHECKING:

        def scalar(self, e: Any) -> Text:
            """See ScalarPrinter."""

        def without_lane(self, e: Any) -> Text:
            """See ScalarPrinter."""

    def place(self, buffer: Any) -> Place:
        """Where `buffer` lives; KernelFailed if nothing allocated it."""
        found = self.context.places.get(buffer)
        if found is None:
            raise KernelFailed(f"buffer {buffer.name} is used, but no parameter or allocation defines it")
        return found

    def flat_index(self, buffer: Any, indices: Any) -> Any:
        """The one index of an access in elements of the buffer: row-major where several indices are left."""
        if len(indices) == 0:
            return tirx.IntImm("int32", 0)
        index = indices[0]
        for extent, following in zip(list(buffer.ty.shape)[1:], list(indices)[1:], strict=True):
            index = index * extent + following
        return index

    def element_text(self, buffer: Any, indices: Any) -> str:
        """The C lvalue of one element: of a scalar access, or of lane `self.lane` of a vector access."""
        place = self.place(buffer)
        index = self.flat_index(buffer, indices)
        _, index_lanes = element_and_lanes(index.ty)
        within: int | str = 0
        if place.lanes > 1:
            if index_lanes > 1:
                raise KernelFailed(f"buffer {buffer.name} of vectors is indexed by a vector")
            within = self.lane if self.lane is not None else 0
            position = self.without_lane(index * place.lanes)
            position = plus(position, within, element_and_lanes(index.ty)[0]) if within != 0 else position
        else:
            position = self.scalar(index)
        if place.registers is None:
            return f"{place.name}[{position.code}]"
        wanted = int(re.sub(r"U?INT64_C|[() ]", "", position.code))
        for first, (name, width) in place.registers.items():
            if first <= wanted < first + width:
                return name if width == 1 else f"{name}[{wanted - first}]"
        raise KernelFailed(f"element {wanted} of {buffer.name} has no register")

    def _load(self, e: Any) -> Text:
        place = self.place(e.source)
        text = self.element_text(e.source, e.indices)
        if place.registers is not None:
            return Text(text)
        if place.of.half:
            return Text(f"{self.context.need(f'from_{place.of.short}:f32')}({text})")
        return Text(f"{text} != 0", LOOSE) if place.of.kind == "bool" else Text(text)

    def stored(self, value: Text, place: Place) -> str:
        """`value` as what is assigned to an element of `place`."""
        if place.registers is None and place.of.half:
            return f"{self.context.need(f'to_{place.of.short}:f32')}({value.code})"
        return cast("uint8_t", value).code if place.of.kind == "bool" else value.code
