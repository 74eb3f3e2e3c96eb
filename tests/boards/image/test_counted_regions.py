"""The emulator's plugin counts each marked region, wherever its marks lie in a page of memory."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from edgetune.boards.image.emulation import emulate
from edgetune.boards.image.parts import build_regions_plugin, image_folder
from edgetune.target.newlib import NEWLIB
from edgetune.target.target import load_target

PAGE = 1024
"""Bytes of the smallest page of an emulated Cortex-M."""
PLACES = range(PAGE - 14, PAGE + 4, 2)
# A region of two instructions, one of 16 bits and one of 32, whose first mark lies in that place of a page.
_FUNCTION = """
static __attribute__((naked, aligned({page}))) void at_{place}(void)
{{
    __asm__ volatile("b 1f\\n .space {before}\\n"
                     "1: .inst.n 0x46c9\\n nop.n\\n nop.w\\n .inst.n 0x46d2\\n nop.w\\n bx lr");
}}
"""


@pytest.mark.parametrize("name", ["mps2-an386", "mps3-an547"])
def test_a_mark_at_the_end_of_a_page_is_seen(name: str, tmp_path: Path) -> None:
    """The instruction behind it is read ahead there, and its bytes were taken for those of the mark."""
    target = load_target(name)
    space = target.memory_map
    assert space is not None
    functions = "".join(_FUNCTION.format(page=PAGE, place=place, before=place - 2) for place in PLACES)
    calls = "".join(f"at_{place}(); " for place in PLACES)
    head = '#include "image.h"\nconst uint32_t image_identity = 7;'
    text = f"{head}\n{functions}\nvoid run(void) {{ uint32_t word = 0; {calls}report(&word, 1); }}\n"
    (tmp_path / "marks.c").write_text(text)
    places = {
        "FLASH_ORIGIN": space.flash.origin,
        "FLASH_BYTES": space.flash.bytes,
        "RAM_ORIGIN": space.ram.origin,
        "RAM_BYTES": space.ram.bytes,
        "STACK_BYTES": 4096,
    }
    image = tmp_path / "image.elf"
    words = [target.compiler.cc, *target.compiler.cflags, "-w", f"-I{image_folder()}", *NEWLIB]
    words += [f"-Wl,--defsym={key}={value}" for key, value in places.items()]
    words += [f"-Wl,--no-warn-rwx-segments,-T,{image_folder() / 'image.ld'}", str(image_folder() / "start.c")]
    subprocess.run([*words, str(tmp_path / "marks.c"), "-o", str(image)], check=True)
    done = emulate(name, target.emulator, build_regions_plugin(tmp_path), image, (), 30.0, lambda _: None)
    assert done.last_words == "edgetune: 00000007 00000000"
    assert done.counts == ((2,),) * len(PLACES)
