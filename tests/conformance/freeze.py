"""Freezing of shape-like inputs: finds the inputs that determine result shapes or axes, and makes them constants.

A package has static shapes, so these inputs must be constants. All others carry data and stay inputs. Each line of the
table gives the reason: without the value, the shape of the result, or its loops, would be unknown before run time.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import numpy_helper

from edgetune.frontend.onnx.nested_graphs import nested, reads_within

SHAPE_LIKE: dict[str, tuple[int, ...]] = {
    "AffineGrid": (1,),  # size: shape of the grid
    "BlackmanWindow": (0,),  # size: length of the window
    "CenterCropPad": (1,),  # shape: of the result
    "Col2Im": (1, 2),  # image_shape: of the result; block_shape: extents of the loops
    "ConstantOfShape": (0,),  # shape: of the result
    "CumProd": (1,),  # axis: along which it is computed
    "CumSum": (1,),  # axis: along which it is computed
    "DFT": (1, 2),  # dft_length: shape of the result; axis: along which it is computed
    "Expand": (1,),  # shape: of the result
    "HammingWindow": (0,),  # size: length of the window
    "HannWindow": (0,),  # size: length of the window
    "Loop": (0, 1),  # trip count and first condition: shape of scan outputs
    "MaxUnpool": (2,),  # output_shape: of the result
    "MelWeightMatrix": (0, 1),  # counts of bins: shape of the result
    "NonMaxSuppression": (2,),  # max_output_boxes_per_class: shape of the result
    "OneHot": (1,),  # depth: shape of the result
    "Pad": (1, 3),  # pads: shape of the result; axes: along which it pads
    "Range": (0, 1, 2),  # start, limit, delta: together the shape of the result
    "ReduceL1": (1,),  # axes: along which it reduces
    "ReduceL2": (1,),  # axes
    "ReduceLogSum": (1,),  # axes
    "ReduceLogSumExp": (1,),  # axes
    "ReduceMax": (1,),  # axes
    "ReduceMean": (1,),  # axes
    "ReduceMin": (1,),  # axes
    "ReduceProd": (1,),  # axes
    "ReduceSum": (1,),  # axes
    "ReduceSumSquare": (1,),  # axes
    "Reshape": (1,),  # shape: of the result
    "Resize": (1, 2, 3),  # roi, scales, sizes: shape of the result and the sampling positions
    "STFT": (1, 3),  # frame_step, frame_length: shape of the result
    "Slice": (1, 2, 3, 4),  # starts, ends, axes, steps: shape of the result
    "Split": (1,),  # split: shapes of the results
    "SplitToSequence": (1,),  # split: shapes of the results
    "Squeeze": (1,),  # axes: which extents go
    "Tile": (1,),  # repeats: shape of the result
    "TopK": (1,),  # K: shape of the result
    "Trilu": (1,),  # k: which diagonal bounds the loops
    "Unsqueeze": (1,),  # axes: where extents come
    "Upsample": (1,),  # scales: shape of the result
}


# Operators that read the shape or the type of an input, not its values.
_VALUES_UNREAD: dict[str, tuple[int, ...]] = {"Shape": (0,), "Size": (0,), "EyeLike": (0,), "CastLike": (1,)}


def shape_like_inputs(graph: onnx.GraphProto) -> set[str]:
    """Names of graph inputs whose values reach the outputs as shapes, axes and similar parameters.

    An input that is also data counts only where it looks like a shape: integers along at most one axis.
    """
    data = {o.name for o in graph.output}
    shape_like: set[str] = set()
    _trace_back(graph, data, shape_like)
    return {i.name for i in graph.input if i.name in shape_like and (i.name not in data or _looks_like_shape(i))}


def _looks_like_shape(value: onnx.ValueInfoProto) -> bool:
    tensor = value.type.tensor_type
    return tensor.elem_type in {onnx.TensorProto.INT64, onnx.TensorProto.INT32} and len(tensor.shape.dim) <= 1


def _trace_back(graph: onnx.GraphProto, data: set[str], shape_like: set[str]) -> None:
    """Adds the operands of the values in `data` and `shape_like` to these sets."""
    for node in reversed(graph.node):
        positions = SHAPE_LIKE.get(node.op_type, ())
        unread = _VALUES_UNREAD.get(node.op_type, ())
        for index, name in enumerate(node.input):
            if index in unread:
                continue
            if index in positions or shape_like.intersection(node.output):
                shape_like.add(name)
            if index not in positions and data.intersection(node.output):
                data.add(name)
        for graph_within in nested(node):
            if node.op_type == "If":
                for found in (data, shape_like):
                    pairs = zip(graph_within.output, node.output, strict=True)
                    found.update(inner.name for inner, outer in pairs if outer in found)
                _trace_back(graph_within, data, shape_like)
            else:
                data.update(reads_within(graph_within))


def freeze(proto: onnx.ModelProto, values: Mapping[str, np.ndarray]) -> tuple[onnx.ModelProto, set[str]]:
    """A model whose shape-like inputs are constants of the given `values`; also their names.

    Inputs without a value stay. Operators without such inputs, as ONNX Squeeze before opset 13, do not change.
    """
    frozen = shape_like_inputs(proto.graph) & set(values)
    result = onnx.ModelProto()
    result.CopyFrom(proto)
    kept = [i for i in proto.graph.input if i.name not in frozen]
    del result.graph.input[:]
    result.graph.input.extend(kept)
    result.graph.initializer.extend(numpy_helper.from_array(values[name], name) for name in sorted(frozen))
    return result, frozen
