"""A convolution's function with the convolution itself replaced by the stages of a minimal filtering algorithm."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, s_tir, te, tirx

from edgetune.tuning.forms.winograd.algorithm import Algorithm
from edgetune.tuning.forms.winograd.convolution import Convolution
from edgetune.tuning.forms.winograd.stages import tensors_of
from edgetune.tuning.sketches.anatomy import block_of, statements_of


def transformed_function(function: Any, convolution: Convolution, algorithm: Algorithm) -> Any:
    """The PrimFunc that computes what `function` does, with transformed weights in the place of the weights.

    Its parameters are those of `function`, but for the weights' shape (m+2, m+2, channels, filters).
    """
    stages = te.create_prim_func(list(tensors_of(convolution, algorithm)))
    source, weights, result = stages.params
    made = stages.body.block
    body = tvm_ffi.structural_map(
        made.body, [(ir.Var, _renaming({source: convolution.source, result: convolution.result}))]
    )
    root = function.body.block
    own = {block_of(statement).name_hint: statement for statement in statements_of(root.body)}
    statements = [
        *(own[stage.name] for stage in convolution.before),
        *statements_of(body),
        *(own[stage.name] for stage in convolution.after),
    ]
    written = [region.source for statement in statements for region in block_of(statement).writes]
    buffers = [b for b in (*root.alloc_buffers, *made.alloc_buffers) if any(b.same_as(other) for other in written)]
    block = s_tir.SBlock([], [], [], "root", tirx.SeqStmt(statements), None, buffers)
    params = [weights if n == convolution.weights else param for n, param in enumerate(function.params)]
    realize = s_tir.SBlockRealize([], True, block)
    return s_tir.renew_defs(tirx.PrimFunc(params, realize, function.ret_type, function.attrs))


def _renaming(names: dict[Any, Any]) -> Any:
    def rename(variable: Any) -> Any:
        return next((new for old, new in names.items() if variable.same_as(old)), variable)

    return rename
