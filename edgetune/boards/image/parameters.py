"""Assembler text of an image: its parameters, with their arrays in flash and their buffers between guards in RAM."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgetune.boards.protocol import OUTPUTS, PART, RunRequest, gap_fill
from edgetune.graph.accuracy import Tolerance

GUARD_BYTES = 64
"""Bytes before and after each buffer that no candidate may change; as in templates/image/image.h."""

ALIGNMENT = 64
_FILLS = (0xFF, 0x5A)  # what outputs hold before the first call (NaN as a float) and before the counted one
_TYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32"),
)  # as in templates/accuracy.h; no image compares doubles
_INPUT, _CONSTANT, _OUTPUT, _SCRATCH = range(4)  # as in templates/image/image.h


@dataclass(frozen=True)
class ImageParameter:
    """One parameter of a candidate: `size` bytes of `elements` elements, which `file` holds from `offset` on.

    `kind` and `element_type` are numbers of image.h and accuracy.h. The scratch has no `file`.
    """

    kind: int
    element_type: int
    size: int
    elements: int
    file: Path | None
    offset: int
    fills: tuple[int, int]
    tolerance: Tolerance

    @property
    def ram_bytes(self) -> int:
        """Bytes of RAM with guards and alignment; constants stay in flash."""
        return 0 if self.kind == _CONSTANT else _round_up(self.size + 2 * GUARD_BYTES)

    @property
    def flash_bytes(self) -> int:
        """Bytes of flash with alignment."""
        return 0 if self.file is None else _round_up(self.size)


def image_parameters(request: RunRequest) -> tuple[ImageParameter, ...]:
    """Return the parameters of a request, and after them its scratch, if it has one.

    Raises ValueError for an array of a type that no image compares, or that is not stored in the order of C.
    """
    found = []
    for path, role, tolerance in zip(request.arrays, request.roles, request.tolerances, strict=True):
        array = np.load(path, mmap_mode="r")
        name = array.dtype.name
        if role in OUTPUTS and name not in _TYPES:
            raise ValueError(f"an output is {name}, which no image compares")
        if not array.flags.c_contiguous:
            raise ValueError(f"{path} is not stored in the order of C")
        kind = _OUTPUT if role in OUTPUTS else _CONSTANT if role == "constant" else _INPUT
        fills = (gap_fill(name), gap_fill(name)) if role == PART else _FILLS
        found.append(
            ImageParameter(
                kind,
                _TYPES.index(name) if name in _TYPES else 0,
                array.nbytes,
                array.size,
                Path(path),
                array.offset if isinstance(array, np.memmap) else Path(path).stat().st_size - array.nbytes,
                fills,
                tolerance or Tolerance(),
            )
        )
    if request.scratch_bytes:
        size = request.scratch_bytes
        found.append(ImageParameter(_SCRATCH, 0, size, size, None, 0, _FILLS, Tolerance()))
    return tuple(found)


def write_assembly(parameters: Sequence[ImageParameter], identity: int, folder: Path) -> Path:
    """Write the assembler text of `parameters` into `folder`, with links to their files; it is assembled there.

    `identity` are 32 bits that begin the report of the image.
    """
    lines = ['.section .rodata.image, "a"', ".balign 4", ".global image_identity", "image_identity:"]
    lines += [f".word {identity:#x}"]
    for number, one in enumerate(parameters):
        lines += _data(number, one, folder)
    lines += ['.section .rodata.image, "a"', ".balign 4", ".global image_parameters", "image_parameters:"]
    for number, one in enumerate(parameters):
        given = f"given_{number}" if one.file else "0"
        words = (one.size, one.elements, one.element_type, one.kind, *one.fills)
        limits = (one.tolerance.relative, one.tolerance.absolute, one.tolerance.share)
        lines.append(f".word {_live(number, one)}, {given}, {', '.join(map(str, (*words, *map(_bits, limits))))}")
    lines += [".global image_parameter_count", "image_parameter_count:", f".word {len(parameters)}"]
    lines += [".global image_pointers", "image_pointers:"]
    lines += [f".word {_live(number, one)}" for number, one in enumerate(parameters)]
    lines += ['.section .bss.image, "aw", %nobits', ".balign 4", ".global image_sums", "image_sums:"]
    lines += [f".space {4 * max(1, len(parameters))}", ""]
    path = folder / "parameters.S"
    path.write_text("\n".join(lines), encoding="ascii")
    return path


def _data(number: int, one: ImageParameter, folder: Path) -> list[str]:
    """The array in flash, and the buffer in RAM."""
    lines = []
    if one.file is not None:
        (folder / f"given_{number}.npy").symlink_to(one.file)
        lines += ['.section .given, "a"', f".balign {ALIGNMENT}", f"given_{number}:"]
        if one.size:
            lines.append(f'.incbin "given_{number}.npy", {one.offset}, {one.size}')
    if one.kind != _CONSTANT:
        lines += ['.section .live, "aw", %nobits', f".balign {ALIGNMENT}", f".space {GUARD_BYTES}"]
        lines += [f"live_{number}:", f".space {one.size + GUARD_BYTES}"]
    return lines


def _live(number: int, one: ImageParameter) -> str:
    return f"given_{number}" if one.kind == _CONSTANT else f"live_{number}"


def _bits(value: float) -> int:
    """The bits of the float nearest to `value`; infinity beyond the largest."""
    try:
        return int.from_bytes(struct.pack("<f", value), "little")
    except OverflowError:
        return int.from_bytes(struct.pack("<f", float("inf")), "little")


def _round_up(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
