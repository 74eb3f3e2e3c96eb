"""Index clamping: run-time indices are clamped to their axis, so a wrong index never causes a wild read or write.

A wrong index gives a wrong element. ONNX leaves an index out of range undefined (Gather, GatherElements, GatherND,
ScatterElements, ScatterND: "an error"). A library without an error path inside kernels can only be safe. The importer
has already normalised negative indices.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from edgetune.graph.rewrite import View, constant

_ALONG_AXIS = frozenset({"relax.gather_elements", "relax.scatter_elements"})
_BY_COORDINATES = frozenset({"relax.gather_nd", "relax.scatter_nd"})


def bounded_index(call: relax.Call, view: View, _: relax.BlockBuilder) -> relax.Expr | None:
    """Rule for `rewrite`: clamps the run-time indices of such operators; `take` clamps its own in mode "clip"."""
    name = call.op.name
    if name == "relax.take":
        if call.attrs.mode != "fast":
            return None
        axis = None if call.attrs.axis is None else int(call.attrs.axis)
        return relax.op.take(call.args[0], call.args[1], axis, mode="clip")
    if name not in _ALONG_AXIS | _BY_COORDINATES or constant(call.args[1]) is not None:
        return None
    shape = [int(extent) for extent in call.args[0].ty.shape]
    if name in _ALONG_AXIS:
        largest = np.array(shape[int(call.attrs.axis)] - 1)
    else:
        first = int(getattr(call.attrs, "batch_dims", 0)) if name == "relax.gather_nd" else 0
        count = int(call.args[1].ty.shape[-1])
        largest = np.array(shape[first : first + count]) - 1
    dtype = str(call.args[1].ty.dtype)
    if _is_clamped(call.args[1], largest, view):
        return None
    zero = relax.const(np.zeros((), dtype), dtype)
    clamped = relax.op.minimum(relax.op.maximum(call.args[1], zero), relax.const(largest.astype(dtype), dtype))
    return relax.Call(call.op, [call.args[0], clamped, *call.args[2:]], call.attrs)


def _is_clamped(indices: relax.Expr, largest: np.ndarray, view: View) -> bool:
    upper = view.call(indices, "relax.minimum")
    bound = None if upper is None else constant(upper.args[1])
    return bound is not None and bound.shape == largest.shape and bool(np.all(bound == largest))
