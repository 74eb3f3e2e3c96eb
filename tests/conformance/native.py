"""A program as one C file, all its kernels and a driver that calls them in order; compiled and run in a child."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgetune.codegen import render_preamble
from edgetune.codegen.compile_unit import INCLUDES
from edgetune.frontend.onnx.sub_byte_types import to_stored
from edgetune.graph.loops import without_loops
from edgetune.graph.memory.live_ranges import owner_of
from edgetune.graph.program import Program
from edgetune.pipeline.link import pack_constants, print_kernels
from edgetune.pipeline.select import choose
from edgetune.target.target import Target
from tests.compile_cache import compiled

_ALIGNMENT = 64
_SECONDS = 30


class RunError(Exception):
    """The compiled program died, or did not end in time."""


@dataclass(frozen=True)
class Unit:
    """C text whose `conformance_run` takes a pointer to each buffer of the program, then one to each of `packed`
    (constants in the layout that a kernel reads), then one to each kernel's scratch of that many bytes."""

    text: str
    packed: tuple[np.ndarray, ...]
    scratch: tuple[int, ...]


def emit_unit(program: Program, target: Target) -> Unit:
    """Every kernel as a package without records has it, under its fixed schedule."""
    choices = choose(program, target, None, lambda _: None)
    found = print_kernels(program, choices, target, "conformance", lambda _: None)
    printed = found.kernels
    sources = [one.source for one in printed]
    names = frozenset[str]().union(*(s.preamble for s in sources))
    flat = without_loops(program)
    packed = pack_constants(flat, printed)
    places = {where: len(program.buffers) + number for number, where in enumerate(packed)}
    owners = [owner_of(buffer, found.in_place) for buffer in range(len(program.buffers))]
    lines = []
    for number, call in enumerate(flat.calls):
        source = sources[call.kernel]
        arguments = [
            f"({'' if p.writable else 'const '}{p.c_type} *)buffers[{places.get((number, index), owners[buffer])}]"
            + (f" + {call.parts[index].offset}" if index in call.parts else "")
            for index, (p, buffer) in enumerate(zip(source.params, call.arguments, strict=True))
        ]
        if source.scratch_bytes:
            arguments.append(f"(unsigned char *)buffers[{len(program.buffers) + len(packed) + call.kernel}]")
        lines.append(f"  {source.symbol}({', '.join(arguments)});\n")
    driver = "void conformance_run(void *const *buffers);\nvoid conformance_run(void *const *buffers) {\n"
    driver += f"{''.join(lines) or '  (void)buffers;'}\n}}\n"
    prototypes = "".join(f"{s.prototype};\n" for s in sources)
    text = "\n".join(
        [INCLUDES, render_preamble(names, target, "conformance"), prototypes, *(s.definition for s in sources), driver]
    )
    return Unit(text, tuple(packed.values()), tuple(s.scratch_bytes for s in sources))


def compile_unit(unit: Unit, target: Target, folder: Path) -> Path:
    """Return a shared object, with every warning an error; raises CompileError with the compiler's words."""
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    machine = [f for f in (*target.compiler.cflags, *target.compiler.kernel_cflags) if f.startswith("-m")]
    command = [target.compiler.cc, *flags, *machine]
    return compiled(command, {"unit.c": unit.text}, folder, suffix=".so", libraries=["-lm"])


def execute(library: Path, program: Program, unit: Unit, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Outputs of one run, in a child process that may crash; raises RunError then."""
    held = [*(b.nbytes for b in program.buffers), *(array.nbytes for array in unit.packed), *unit.scratch]
    sizes = [max(size, 1) for size in held]
    offsets = np.concatenate([[0], np.cumsum([-(-s // _ALIGNMENT) * _ALIGNMENT for s in sizes])])
    with mmap.mmap(-1, int(offsets[-1]) + mmap.PAGESIZE) as shared:
        for buffer in program.buffers:
            value = program.constants.get(buffer.id)
            if buffer.kind == "input":
                value = to_stored(inputs[buffer.name])
            if value is not None:
                data = np.ascontiguousarray(value).tobytes()
                shared[int(offsets[buffer.id]) : int(offsets[buffer.id]) + len(data)] = data
        for number, array in enumerate(unit.packed, start=len(program.buffers)):
            shared[int(offsets[number]) : int(offsets[number]) + array.nbytes] = np.ascontiguousarray(array).tobytes()
        _call_in_child(library, shared, offsets)
        return [
            np.frombuffer(bytes(shared[int(offsets[b.id]) : int(offsets[b.id]) + b.nbytes]), b.dtype).reshape(b.shape)
            for b in program.output_buffers()
        ]


def _call_in_child(library: Path, shared: mmap.mmap, offsets: np.ndarray) -> None:
    child = os.fork()
    if child == 0:
        signal.alarm(_SECONDS)
        try:
            window = (ctypes.c_char * len(shared)).from_buffer(shared)
            base = ctypes.addressof(window)
            pointers = (ctypes.c_void_p * (len(offsets) - 1))(*(base + int(o) for o in offsets[:-1]))
            ctypes.CDLL(str(library)).conformance_run(pointers)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        raise RunError(f"the compiled program ended by {signal.Signals(os.WTERMSIG(status)).name}")
