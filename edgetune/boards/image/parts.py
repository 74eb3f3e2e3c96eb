"""Fixed parts of every image: start-up and harness for a target, and the emulator's plugin that counts regions."""

from __future__ import annotations

import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path

from edgetune.boards.compiled_once import PLUGIN, WARNINGS, CompiledProgram, compiled_once
from edgetune.resources import templates_dir
from edgetune.target.memory_map import MemoryMap
from edgetune.target.target import Target

_FOLDER = "image"
EMULATED, PROBED = "marks.c", "cycles.c"
"""How an image counts calls: by marks for the plugin of an emulator, or by the cycles of the core that runs it."""
_OBJECT = ("-O2", "-ffreestanding", "-fno-lto", "-r", "-nostdlib")


_BOARD = """#include "image.h"

void image_board(void)
{{
{statements}
}}
"""


def image_folder() -> Path:
    """Return the folder of the C text and the linker script of images."""
    return templates_dir() / "image"


def layout_words(space: MemoryMap, stack_bytes: int) -> tuple[str, ...]:
    """Return the linker's words for an image in the memory of a board, with a stack of so many bytes."""
    places = {
        "FLASH_ORIGIN": space.flash.origin,
        "FLASH_BYTES": space.flash.bytes,
        "RAM_ORIGIN": space.ram.origin,
        "RAM_BYTES": space.ram.bytes,
        "STACK_BYTES": stack_bytes,
    }
    symbols = (f"-Wl,--defsym={name}={value:#x}" for name, value in places.items())
    return (*symbols, f"-Wl,-T,{image_folder() / 'image.ld'}")


def build_harness(target: Target, counting: str = EMULATED, cache: Path | None = None) -> Path:
    """Return start-up and harness as one relocatable object with the flags of `target`; raises ToolchainMissing.

    `counting` is `EMULATED` or `PROBED`; for a probe, what its board needs first is compiled in.
    """
    fixed = [image_folder() / name for name in ("start.c", "harness.c", counting)]
    if counting == EMULATED or target.debug_probe is None:
        return _object("harness.o", "the harness of images", fixed, target, cache)
    with tempfile.TemporaryDirectory(prefix="edgetune-board-") as folder:
        board = Path(folder) / "board.c"
        board.write_text(_BOARD.format(statements=textwrap.indent(target.debug_probe.start, "    ")), encoding="utf-8")
        what = "the harness of images with `debug_probe.start` of the target file"
        return _object("harness.o", what, [*fixed, board], target, cache)


def build_idle(target: Target, cache: Path | None = None) -> Path:
    """Return a candidate that does nothing, as a relocatable object; raises ToolchainMissing."""
    return _object("idle.o", "the image that does nothing", [image_folder() / "idle.c"], target, cache)


def _object(name: str, what: str, sources: Sequence[Path], target: Target, cache: Path | None) -> Path:
    folder = image_folder()
    program = CompiledProgram(
        name,
        what,
        target.compiler.cc,
        [*target.compiler.cflags, *WARNINGS, *_OBJECT, f"-I{folder}"],
        sources,
        [folder / "image.h", templates_dir() / "accuracy.h"],
        target=target,
    )
    return compiled_once(program, _FOLDER, cache)


def build_regions_plugin(cache: Path | None = None) -> Path:
    """Return the plugin that counts what is executed between two marks; raises ToolchainMissing."""
    sources = [image_folder() / "plugin" / "regions.c"]
    program = CompiledProgram("regions.so", "the counting plugin", "gcc", [*WARNINGS, *PLUGIN], sources)
    return compiled_once(program, _FOLDER, cache)
