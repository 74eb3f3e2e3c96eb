"""Instructions of the functions that kernels call, counted in the text that a compiler makes of a call.

`edgetune/codegen/instruction_counts.py` has what these were when they were counted last. Functions with loops, which
transpose and convert, are not counted here: the frozen kernels that call them are.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.oracle.facts import target_of
from edgetune.codegen.instruction_counts import instructions_of
from edgetune.codegen.preamble import render_preamble
from edgetune.codegen.work import Operation
from edgetune.target.target import Target

_BODY = re.compile(r"\nmeasured:\n(.*?)\n\t\.(?:size|cfi_endproc)", re.DOTALL)
_INSTRUCTION = re.compile(r"\t(?!ret\b|vzeroupper\b|bx\b)[a-z]")
_FUNCTIONS = ("exp", "log", "tanh", "sigmoid", "erf", "sin", "log1p", "sqrt", "floor")
_LOADS = ("every_second", "backwards", "every_third", "every_fourth")


class Counted(NamedTuple):
    """A snippet, and the instructions of a call: those that are counted, and those that an estimate has.

    Not counted are the loads and stores of the function that calls it. Counted are constants that are loaded, which
    stay in registers where a kernel calls it in a loop.
    """

    snippet: str
    counted: int
    estimated: float


def counted_snippets(width: int) -> Iterator[Counted]:
    """Every snippet for vectors of `width` bits that the oracle's compiler for that width takes."""
    target, lanes = target_of(width), width // 32
    for snippet, parameters, call, own in _calls(f"f32x{lanes}"):
        estimated = instructions_of(Operation(snippet, "", frozenset()), target)
        yield Counted(snippet, _count(target, lanes, snippet, parameters, call) - own, estimated)


def _calls(vector: str) -> Iterator[tuple[str, str, str, int]]:
    """Snippets with the parameters and the body of a function that calls each, and its own loads and stores."""
    for kind in _FUNCTIONS:
        yield f"{kind}:{vector}", f"{vector} *a", f"{vector} v = *a; p__{kind}_{vector}(&v); *a = v;", 2
    for kind in _LOADS:
        call = f"{vector} v; p__{kind}_{vector}(x, &v); *a = v;"
        yield f"{kind}:{vector}", f"const float *x, {vector} *a", call, 1
    call = f"{vector} v, w; p__pairs_{vector}(x, &v, &w); *a = v; a[1] = w;"
    yield f"pairs:{vector}", f"const float *x, {vector} *a", call, 2
    for kind in ("vmax", "vmaximum"):
        call = f"{vector} v = *a, w = a[1]; p__{kind}_{vector}(&v, &w); *a = v;"
        yield f"{kind}:{vector}", f"{vector} *a", call, 3
    for kind in ("lanes_sum", "lanes_largest"):
        yield f"{kind}:{vector}", f"const {vector} *a, float *y", f"{vector} v = *a; *y = p__{kind}_{vector}(&v);", 2


def _count(target: Target, lanes: int, snippet: str, parameters: str, body: str) -> int:
    types = [f"type:f32x{lanes}", f"type:f32x{lanes}u"]
    preamble = render_preamble([snippet, *types], target, "p")
    source = f"#include <stdint.h>\n#include <stddef.h>\n{preamble}void measured({parameters}) {{ {body} }}\n"
    compiler = target.compiler
    words = [compiler.cc, *compiler.cflags, *compiler.kernel_cflags, "-fno-math-errno", "-S", "-x", "c", "-", "-o", "-"]
    made = subprocess.run(words, input=source, capture_output=True, text=True, check=True)
    found = _BODY.search(made.stdout)
    if found is None:
        raise ValueError(f"the compiler's text for {snippet} has no function `measured`")
    return sum(bool(_INSTRUCTION.match(line)) for line in found[1].splitlines())
