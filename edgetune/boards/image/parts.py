"""Fixed parts of every image: start-up and harness for a target, and the emulator's plugin that counts regions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgetune.boards.compiled_once import PLUGIN, WARNINGS, CompiledProgram, compiled_once
from edgetune.resources import templates_dir
from edgetune.target.target import MemoryMap, Target

_FOLDER = "image"
_HARNESS = ("-O2", "-ffreestanding", "-fno-lto", "-r", "-nostdlib")


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


def build_harness(target: Target, cache: Path | None = None) -> Path:
    """Return start-up and harness as one relocatable object with the flags of `target`; raises ToolchainMissing."""
    return _object("harness.o", ("start.c", "harness.c"), target, cache)


def build_idle(target: Target, cache: Path | None = None) -> Path:
    """Return a candidate that does nothing, as a relocatable object; raises ToolchainMissing."""
    return _object("idle.o", ("idle.c",), target, cache)


def _object(name: str, sources: Sequence[str], target: Target, cache: Path | None) -> Path:
    folder = image_folder()
    program = CompiledProgram(
        name,
        "the harness of images",
        target.compiler.cc,
        [*target.compiler.cflags, *WARNINGS, *_HARNESS],
        [folder / source for source in sources],
        [folder / "image.h", templates_dir() / "accuracy.h"],
        target=target,
    )
    return compiled_once(program, _FOLDER, cache)


def build_regions_plugin(cache: Path | None = None) -> Path:
    """Return the plugin that counts what is executed between two marks; raises ToolchainMissing."""
    sources = [image_folder() / "plugin" / "regions.c"]
    program = CompiledProgram("regions.so", "the counting plugin", "gcc", [*WARNINGS, *PLUGIN], sources)
    return compiled_once(program, _FOLDER, cache)
