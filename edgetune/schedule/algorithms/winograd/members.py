"""Winograd algorithms of a 3x3 convolution: replaces the convolution stage of a function by the Winograd stages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tvm_ffi
from tvm import ir, s_tir, te, tirx

from edgetune.errors import KernelFailed
from edgetune.graph.tvm_types import PrimFunc, TvmBuffer, Var
from edgetune.schedule.algorithms.algorithm import Algorithm
from edgetune.schedule.algorithms.winograd.algorithm import ALGORITHMS, KERNEL, MinimalFiltering
from edgetune.schedule.algorithms.winograd.convolution import Convolution, find_convolution
from edgetune.schedule.algorithms.winograd.stages import tensors_of
from edgetune.schedule.sketches.block_analysis import block_of, statements_of
from edgetune.schedule.sketches.tile import lanes_for


def transformed_function(function: PrimFunc, convolution: Convolution, algorithm: MinimalFiltering) -> PrimFunc:
    """The PrimFunc that computes the same as `function`, but reads transformed weights.

    Its parameters are those of `function`, except that the weights have shape (m+2, m+2, channels, filters).
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


def _renaming(names: dict[TvmBuffer, TvmBuffer]) -> Callable[[Var], Var]:
    def rename(variable: Var) -> Var:
        return next((new for old, new in names.items() if variable.same_as(old)), variable)

    return rename


_LEAST_LANES = 4


def winograd_algorithm(function: PrimFunc, name: str) -> Algorithm | None:
    """The algorithm called `name`, one of `ALGORITHMS`, of an unscheduled PrimFunc.

    None unless it is a 3x3 convolution of stride 1 whose input and output channels form vectors of four: the transforms
    are sums of such vectors.
    """
    convolution = find_convolution(function)
    if convolution is None:
        return None
    widths = (convolution.channels, convolution.output_shape[-1])
    if any(lanes_for(width, _LEAST_LANES) < _LEAST_LANES for width in widths):
        return None
    algorithm = ALGORITHMS[name]
    transform = WeightTransform(algorithm, convolution.weight_axes)
    return Algorithm(name, transformed_function(function, convolution, algorithm), {convolution.weights: transform})


@dataclass(frozen=True)
class WeightTransform:
    """G g G^T for each pair of channels; `axes` are those of window row and column, input and output channel."""

    algorithm: MinimalFiltering
    axes: tuple[int, int, int, int]

    def apply(self, source: np.ndarray) -> np.ndarray:
        """Shape (m+2, m+2, channels, filters), computed in double precision and rounded once to `source`'s dtype.

        Raises KernelFailed for weights whose window is not 3 x 3.
        """
        weights = source.transpose(self.axes)
        if weights.shape[:2] != (KERNEL, KERNEL):
            raise KernelFailed(f"weights of shape {source.shape} are no 3x3 window: a constant was taken for another")
        g = self.algorithm.weight_transform()
        # Explicit sums, so that their order is the same with every version of numpy.
        rows = _sum_of_three([g[:, k, None, None, None] * weights[None, k].astype(np.float64) for k in range(KERNEL)])
        both = _sum_of_three([g[None, :, k, None, None] * rows[:, None, k] for k in range(KERNEL)])
        return np.ascontiguousarray(both, dtype=source.dtype)


def _sum_of_three(terms: list[np.ndarray]) -> np.ndarray:
    total: np.ndarray = terms[0] + terms[1] + terms[2]
    return total
