"""Names in CUDA text: of offsets, of loops that copy or join, and of buffers in shared memory."""

from __future__ import annotations

import re
from collections.abc import Collection

from tvm import tirx

from edgetune.affine.expressions import loads_in, variables_in
from edgetune.codegen.cuda.tidy import SHARED, copies_in, statements_in
from edgetune.codegen.cuda.tiles import stored_sums, tile_loops
from edgetune.codegen.names import plain_name
from edgetune.codegen.subexpression_names import stems
from edgetune.codegen.traverse import expressions
from edgetune.tvm_types import Stmt, TvmBuffer, Var

_SUM_OVER_THREADS = re.compile(r"red_buf\d+")
_OVER_THREADS = "cross_thread_"  # the result of a reduction over threads
_REINDEXED = re.compile(r"_reindex(_pad)?")


def buffer_name(buffer: TvmBuffer) -> str:
    """The name of a buffer without TVM's additions."""
    return plain_name(without_additions(str(buffer.name)))


def without_additions(name: str) -> str:
    """A name without what TVM adds for copies of operands and for sums over threads."""
    return "reduced" if name.startswith(_OVER_THREADS) else _SUM_OVER_THREADS.sub("partial", _REINDEXED.sub("", name))


def variable_names(body: Stmt) -> dict[Var, str]:
    """Names of offsets after what they index; of loops that fill copies ("step") or join partial sums ("part")."""
    copies, sums = copies_in(body), stored_sums(body)
    found = {variable: without_additions(name) for variable, name in stems(body, copies).items()}
    for node in statements_in(body):
        if isinstance(node, tirx.For):
            stored = {one.buffer for one in statements_in(node) if isinstance(one, tirx.BufferStore)}
            if stored <= copies.keys():
                found[node.loop_var] = "step"
            elif _reads_partial_sums(node.body, node.loop_var, {*copies, *sums}):
                found[node.loop_var] = "part"
    own = {f"{buffer_name(buffer)}_at" for buffer in sums}
    found = {variable: "sums_at" if name in own else name for variable, name in found.items()}
    return found | tile_loops(body)


def _reads_partial_sums(body: Stmt, variable: Var, copies: Collection[TvmBuffer]) -> bool:
    """Whether statements index, by a variable, a buffer in shared memory that is no copy."""
    for node in statements_in(body):
        for load in loads_in(expressions(node)):
            used: set[Var] = set()
            variables_in(load.indices, used)
            if variable in used and str(load.source.scope()) == SHARED and load.source not in copies:
                return True
    return False
