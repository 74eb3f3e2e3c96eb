"""Links the image of one candidate, and says by how much one does not fit the memory of its board."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from edgetune.boards.image.parameters import ImageParameter, write_assembly
from edgetune.boards.image.parts import layout_words
from edgetune.errors import BoardLost, DiskFull
from edgetune.target.memory_map import MemoryMap
from edgetune.target.newlib import NEWLIB
from edgetune.target.target import STACK_LIMIT_BYTES, Target
from edgetune.target.tool_process import run_tool
from edgetune.yaml_reader.quantities import format_bytes

STACK_BYTES = 3 * STACK_LIMIT_BYTES
"""Stack of an image: of the candidate, of functions of the C library that it calls, and of the harness."""

_OVERFLOW = re.compile(r"region [`'](FLASH|RAM)' overflowed by (\d+) bytes")
_NO_SPACE = "No space left on device"
_REASON = 500


class DoesNotFitError(Exception):
    """The image of a candidate is larger than flash or RAM of its board; the argument is the sentence."""


class CannotLinkError(Exception):
    """The image of a candidate cannot be linked; the argument is what the linker says."""


def link_image(
    target: Target,
    harness: Path,
    candidate: Path,
    parameters: Sequence[ImageParameter],
    identity: int,
    folder: Path,
    timeout_s: float,
    on_start: Callable[[int], None],
) -> Path:
    """Link `harness`, `candidate` and the arrays of `parameters` in `folder`; return the image.

    `identity` are 32 bits that begin the image's report. Raises DoesNotFitError, CannotLinkError, DiskFull, and
    ToolHung after `timeout_s`.
    """
    space = _memory(target)
    for region, size, room in (
        ("flash", sum(one.flash_bytes for one in parameters), space.flash.bytes),
        ("RAM", sum(one.ram_bytes for one in parameters) + STACK_BYTES, space.ram.bytes),
    ):
        if size > room:
            raise DoesNotFitError(_too_large(target, region, size - room, room))
    image = folder / "image.elf"
    command = [
        target.compiler.cc,
        *target.compiler.cflags,
        *NEWLIB,
        "-Wl,--no-warn-rwx-segments,--build-id=none",
        *layout_words(space, STACK_BYTES),
        str(harness),
        str(candidate),
        write_assembly(parameters, identity, folder).name,
        "-o",
        str(image),
        *target.compiler.ldflags,
    ]
    done = run_tool(command, timeout_s=timeout_s, folder=folder, on_start=on_start)
    if done.returncode == 0:
        return image
    if (over := _OVERFLOW.search(done.stderr)) is not None:
        region, room = ("flash", space.flash.bytes) if over[1] == "FLASH" else ("RAM", space.ram.bytes)
        raise DoesNotFitError(_too_large(target, region, int(over[2]), room))
    if _NO_SPACE in done.stderr:
        raise DiskFull(f"no space left for images in {folder.parent}: free some, or set TMPDIR")
    raise CannotLinkError(done.stderr.strip()[:_REASON] or f"{target.compiler.cc}: exit code {done.returncode}")


def _memory(target: Target) -> MemoryMap:
    """The memory map; a target without one is refused when its file is read."""
    if target.memory_map is None:
        raise BoardLost(f"board '{target.name}' has no memory_map: add it to its target file")
    return target.memory_map


def _too_large(target: Target, region: str, excess: int, room: int) -> str:
    return (
        f"its code and arrays need {excess} bytes more {region} than board '{target.name}' has ({format_bytes(room)})"
    )
