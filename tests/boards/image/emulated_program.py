"""A program beside the start-up code of images, under the emulator and the counting plugin."""

from __future__ import annotations

import subprocess
from pathlib import Path

from edgetune.boards.image.emulation import Emulation, emulate
from edgetune.boards.image.parts import build_regions_plugin, image_folder, layout_words
from edgetune.target.newlib import NEWLIB
from edgetune.target.target import load_target


def emulated_program(name: str, text: str, folder: Path) -> Emulation:
    """The emulation of a program on board `name`, in `text` with a function `run`."""
    target = load_target(name)
    assert target.memory_map is not None
    (folder / "marks.c").write_text(f'#include "image.h"\nconst uint32_t image_identity = 7;\n{text}')
    image = folder / "image.elf"
    words = [target.compiler.cc, *target.compiler.cflags, "-w", f"-I{image_folder()}", *NEWLIB]
    words += ["-Wl,--no-warn-rwx-segments", *layout_words(target.memory_map, 4096), str(image_folder() / "start.c")]
    subprocess.run([*words, str(folder / "marks.c"), "-o", str(image)], check=True)
    return emulate(name, target.emulator, build_regions_plugin(folder), image, (), 30.0, lambda _: None)
