"""Program images: which test programs a package has, and what they are linked with on a kind of system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edgetune.package.package_file import PackageFile, write_files
from edgetune.target.memory_map import GUARD_BYTES

Real = Literal["double", "float"]


@dataclass(frozen=True)
class ProgramImage:
    """What the test programs of a package need beyond its library.

    `programs` are "selftest" and, where there is a clock, "bench", whose template is `bench`. `files` lie in test/;
    `objects` are compiled from them. `link_words` go on the linker's command line, run in the package's folder. The
    self-test compares in the C type `real`. With `native` the programs also run where the machine that builds them has
    the package's ISA.
    `ram_bytes` bound the RAM of a program beside what it holds for the library: its own variables and stack, and
    variables and heap of the C library. They are 0 where no image has to fit.
    """

    programs: tuple[str, ...] = ("selftest", "bench")
    bench: str = "core/bench.c.j2"
    files: tuple[PackageFile, ...] = ()
    objects: tuple[str, ...] = ()
    link_words: tuple[str, ...] = ()
    real: Real = "double"
    native: bool = True
    ram_bytes: int = 0

    def template(self, program: str) -> str:
        """Return the template of one of `programs`."""
        return self.bench if program == "bench" else f"core/{program}.c.j2"

    def self_test_bytes(self, buffers: int, alignment: int) -> int:
        """Bound the RAM in bytes that the self-test takes beside workspace, context, outputs and stack of the package.

        `buffers` are its workspace and its outputs, each between guards, at a multiple of `alignment` bytes.
        """
        return self.ram_bytes + buffers * (2 * GUARD_BYTES + alignment)

    def start_words(self, folder: Path, context: Mapping[str, object]) -> tuple[str, ...]:
        """Write `files` into `folder`, and return the words that compile and link them with a program, run there."""
        write_files(folder, self.files, context)
        return (*(file.path for file in self.files if file.path.endswith(".c")), *self.link_words)


HOSTED = ProgramImage()
"""Programs that an operating system and its C library start."""
