"""Instructions that kernels execute under their default schedules: a cost that no rule of the middle end predicts.

They are counted in an emulated core with vectors of 256 bits, by the plugin that counts those of packages. The count of
a kernel depends on its C and on the compiler alone.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from benchmarks.oracle.facts import target_of
from edgetune.boards.agent.build import agent_folder, build_plugin
from edgetune.codegen import emit_kernel, kernel_unit, shim
from edgetune.graph.program import Kernel, Program, byte_size
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import default_schedule
from tests.codegen_run import flags_for
from tests.compile_cache import compiled

_BITS = 256
_LINE = 64
_ROOM = 1 << 16
"""Bytes after each tensor, for weights that a schedule packs with gaps."""
_HEADER = '"../counting.h"'
_MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    static const size_t sizes[] = {@sizes@};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    void *buffers[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        buffers[i] = aligned_alloc(@line@, sizes[i]);
        if (buffers[i] == NULL)
            return 1;
        memset(buffers[i], 0, sizes[i]);
    }
    void (*volatile call)(void *const *) = edgetune_call; /* else what nobody reads need not be computed */
    edgetune_instructions();
    const uint64_t first = edgetune_instructions(), before = edgetune_instructions();
    call(buffers);
    printf("%llu\\n", (unsigned long long)(edgetune_instructions() - before - (before - first)));
    return 0;
}
"""


def executed(program: Program, folder: Path) -> int:
    """Instructions of one run of all calls of `program`, whose tensors are zeros; `folder` is for what is compiled."""
    counts = [_executed(kernel, folder) for kernel in program.kernels]
    return sum(counts[call.kernel] for call in program.calls)


def _executed(kernel: Kernel, folder: Path) -> int:
    target = target_of(_BITS)
    schedule = default_schedule(kernel.function, target, kernel.scratch, FORMS)[0]
    source = emit_kernel(apply_schedule(kernel.function, schedule).module, target, "k")
    sizes = [byte_size(param.shape, param.dtype) + _ROOM for param in kernel.params]
    sizes += [source.scratch_bytes] if source.scratch_bytes else []
    whole = (str(-(-size // _LINE) * _LINE) for size in sizes)
    main = _MAIN.replace("@sizes@", ", ".join(whole)).replace("@line@", str(_LINE))
    clock = (agent_folder() / "plugin" / "bench_clock.c").read_text(encoding="utf-8").replace(_HEADER, '"counting.h"')
    sources = {
        "counted.c": clock + kernel_unit(source, target, "test") + shim(source, "test") + main,
        "counting.h": (agent_folder() / "counting.h").read_text(encoding="utf-8"),
    }
    command = [target.compiler.cc, *flags_for(target, target.compiler.cc), "-static"]
    program = compiled(command, sources, folder, suffix=".counted", libraries=["-lm"])
    emulator, *options = target.emulator
    words = [emulator, "-plugin", f"file={build_plugin()}", *options, str(program)]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
