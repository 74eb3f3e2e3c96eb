"""Perturbed models: copies of a model in which inner tensors are moved at random, by as little as rounding moves them.

What that does to an output is how far right implementations may differ there. In one copy, every float tensor that an
operator rounds is moved by one unit in the last place. In the other one, every element of the last quantised tensors
before an output is moved by one step. The moves are operators of ONNX with fixed seeds, so that any evaluator of ONNX
computes them, and the same model gets the same copy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgetune.frontend.onnx.domains import is_onnx
from edgetune.frontend.onnx.nested_graphs import nested, reads, set_nodes, unused_prefix
from edgetune.frontend.onnx.node_values import real_inputs
from edgetune.frontend.onnx.reader import OnnxModel

RUNS = 3
"""Seeded runs of a perturbed model, for each of its inputs."""

_UNIT = {TensorProto.FLOAT16: -10, TensorProto.BFLOAT16: -7, TensorProto.FLOAT: -23, TensorProto.DOUBLE: -52}
"""The exponent of a unit in the last place of 1, by element type."""

_OF_UNIT = 0.75
"""Adding this share of 2^exponent times a number moves it by one unit in the last place, wherever in its binade it is:
the sum rounds to the neighbour from 0.75 units, at the lower end, to less than 1.5 units."""

_FAR = 1e6
"""Uniform numbers up to this are -1 or 1 after a Clip to these, except for one in a million; so are smaller limits."""

_STEPS = {
    TensorProto.INT8: (-128.0, 127.0),
    TensorProto.UINT8: (0.0, 255.0),
    TensorProto.INT16: (-32768.0, 32767.0),
    TensorProto.UINT16: (0.0, 65535.0),
}
"""The quantised types that are moved, and their limits. Narrower ones have no conversion in most evaluators."""

_CLIP_TAKES_INPUTS = 11
_CONTROL = frozenset({"If", "Loop", "Scan"})
_OF_SHAPES = frozenset({"Shape", "Size"})
_EXACT = frozenset(
    [
        *("Abs", "ArgMax", "ArgMin", "Cast", "CastLike", "Ceil", "Clip", "Compress", "Concat", "ConcatFromSequence"),
        *("Constant", "ConstantOfShape", "DepthToSpace", "Dropout", "Expand", "EyeLike", "Flatten", "Floor", "Gather"),
        *("GatherElements", "GatherND", "GlobalMaxPool", "Identity", "IsInf", "IsNaN", "Max", "MaxPool"),
        *("MaxRoiPool", "MaxUnpool", "Min", "Neg", "OneHot", "Pad", "ReduceMax", "ReduceMin", "Relu"),
        *("Reshape", "ReverseSequence", "Round", "ScatterElements", "ScatterND", "SequenceAt", "Sign", "Slice"),
        *("SpaceToDepth", "Split", "Squeeze", "ThresholdedRelu", "Tile", "TopK", "Transpose", "Trilu", "Unique"),
        *("Unsqueeze", "Where"),
    ]
)
"""Operators whose result is one of their operands' elements, or nearly so: they round nothing that a kernel must."""

_MOVES = frozenset(
    [
        *("Concat", "Dropout", "Expand", "Flatten", "Gather", "Identity", "MaxPool", "ReduceMax", "ReduceMin"),
        *("Reshape", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"),
    ]
)
"""Operators whose result has no value that the first operand (each operand of Concat) has not."""

_ADDS = frozenset(
    [
        *("AveragePool", "Conv", "ConvTranspose", "CumSum", "DFT", "DeformConv", "Einsum", "GRU", "Gemm"),
        *("GlobalAveragePool", "GlobalLpPool", "GroupNormalization", "InstanceNormalization", "LSTM"),
        *("LayerNormalization", "LpPool", "MatMul", "MeanVarianceNormalization", "RNN", "ReduceL1", "ReduceL2"),
        *("ReduceLogSum", "ReduceLogSumExp", "ReduceMean", "ReduceSum", "ReduceSumSquare", "STFT"),
    ]
)
"""Operators that add products or terms, each of which is rounded: where terms cancel, that is more than their result's
own unit."""

_WITHIN_ONE = frozenset(["Cos", "Erf", "HardSigmoid", "Sigmoid", "Sin", "Softmax", "Softsign", "Tanh"])

_Moved = Callable[[str, str, str, int], list[onnx.NodeProto]]
"""Takes the tensor before and after the move, a prefix for new names, and a number for the seed."""


def rounded(model: OnnxModel, run: int) -> OnnxModel | None:
    """A copy of `model` with each float tensor that an operator rounds moved by one unit in the last place.

    So is what an operator that adds terms reads, where nothing before it has rounded that. The direction of each
    element is random, another one in each `run`. What no input changes stays, and so does what an operator only moves
    or selects. None where nothing is rounded.
    """
    moves: dict[str, _Moved] = {}
    _add_rounded(moves, model.proto.graph, _fed(model), model.opset)
    return _with_moves(model, moves, run, _unrounded_operands(model, moves)) if moves else None


def stepped(model: OnnxModel, tensors: Collection[str], run: int) -> OnnxModel | None:
    """A copy of `model` with each element of the quantised `tensors` moved by one step, within the limits of its type.

    The direction of each element is random, another one in each `run`. None where no type among `tensors` can be moved.
    """
    types = _element_types(model.proto.graph)
    moves = {name: _step(types[name], model.opset) for name in tensors if types.get(name) in _STEPS}
    return _with_moves(model, moves, run) if moves else None


def moved_elements(model: OnnxModel) -> int:
    """Elements of all tensors and operands that `rounded` moves, as far as their shapes are known.

    Those of branches and bodies count once.
    """
    graph = model.proto.graph
    moves: dict[str, _Moved] = {}
    _add_rounded(moves, graph, _fed(model), model.opset)
    operands = _unrounded_operands(model, moves)
    elements = _elements(graph)
    moved = [*moves, *(node.input[0] for node in graph.node if _key(node) in operands)]
    return sum(elements.get(name, 0) for name in moved)


def _elements(graph: onnx.GraphProto) -> dict[str, int]:
    """The elements of each tensor of a graph and its nested graphs; an axis of unknown extent counts as 1."""
    values = (*graph.input, *graph.value_info, *graph.output)
    found = {value.name: prod(max(1, d.dim_value) for d in value.type.tensor_type.shape.dim) for value in values}
    for node in graph.node:
        for inner in nested(node):
            found |= _elements(inner)
    return found


@dataclass(frozen=True)
class Ends:
    """Where an output comes from, seen from its end: the last quantised tensors before it, and its largest magnitude.

    `quantised` are integer tensors that an operator rounds to and that an input changes; there is no other between them
    and the output. `magnitude` is None where the operator of the output has no limit.
    """

    quantised: tuple[str, ...]
    magnitude: float | None


def ends(model: OnnxModel) -> Mapping[str, Ends]:
    """The ends of each output of `model`."""
    graph = model.proto.graph
    producers = {output: node for node in graph.node for output in node.output}
    varying, limited = _varying(graph, _fed(model)), _within_one(graph)
    return {
        output.name: Ends(
            tuple(_last_quantised(output.name, producers, varying)), 1.0 if output.name in limited else None
        )
        for output in graph.output
    }


def _last_quantised(output: str, producers: Mapping[str, onnx.NodeProto], varying: Collection[str]) -> Iterator[str]:
    seen, left = {output}, [output]
    while left:
        name = left.pop()
        node = producers.get(name)
        if node is None or name not in varying:
            continue
        if _quantises(node):
            yield node.output[0]
            continue
        new = [read for read in reads(node) if read not in seen]
        seen.update(new)
        left += new


def _quantises(node: onnx.NodeProto) -> bool:
    """Whether an operator rounds its first result to integers of a scale."""
    return str(node.op_type).startswith(("QuantizeLinear", "DynamicQuantizeLinear", "QLinear", "QGemm"))


def _within_one(graph: onnx.GraphProto) -> set[str]:
    """The tensors whose magnitude is at most 1, whatever a graph is fed, by the operators that make them."""
    found: set[str] = set()
    for node in filter(is_onnx, graph.node):
        read = node.input if node.op_type in {"Concat", "Mul"} else node.input[:1]
        keeps = node.op_type in _MOVES or node.op_type == "Mul"
        if node.op_type in _WITHIN_ONE or (keeps and found.issuperset(read)):
            # The further outputs of a Split are parts as well; those of a MaxPool are places.
            found.update(node.output if node.op_type == "Split" else node.output[:1])
    return found - {""}


def _fed(model: OnnxModel) -> set[str]:
    return {value.name for value in real_inputs(model.proto.graph)} - model.weights.keys()


def _varying(graph: onnx.GraphProto, fed: Collection[str]) -> set[str]:
    """The tensors of a graph that depend on the values of `fed`, not only on their shapes."""
    found = set(fed)
    for node in graph.node:
        if node.op_type not in _OF_SHAPES and not found.isdisjoint(reads(node)):
            found.update(filter(None, node.output))
    return found


def _element_types(graph: onnx.GraphProto) -> dict[str, int]:
    values = (*graph.input, *graph.value_info, *graph.output)
    # A number alone has no shape that ONNX's evaluator draws random numbers for.
    return {
        value.name: value.type.tensor_type.elem_type
        for value in values
        if value.type.HasField("tensor_type") and _has_axes(value.type.tensor_type)
    }


def _has_axes(of: onnx.TypeProto.Tensor) -> bool:
    """Whether a tensor has axes, as far as is known."""
    return bool(of.shape.dim) or not of.HasField("shape")


def _add_rounded(moves: dict[str, _Moved], graph: onnx.GraphProto, fed: Collection[str], opset: int) -> None:
    types, varying = _element_types(graph), _varying(graph, fed)
    for node in graph.node:
        for inner in nested(node):
            _add_rounded(moves, inner, {*varying, *(value.name for value in inner.input)}, opset)
        if node.op_type in _CONTROL or (is_onnx(node) and node.op_type in _EXACT):
            continue
        for output in node.output:
            if output in varying and types.get(output) in _UNIT:
                moves[output] = _unit(types[output], opset)


def _unrounded_operands(model: OnnxModel, moves: Mapping[str, _Moved]) -> dict[str, _Moved]:
    """How to move what a node of the main graph adds, by the node's key, where nothing has moved that yet."""
    graph, fed = model.proto.graph, _fed(model)
    types, varying, unmoved = _element_types(graph), _varying(graph, fed), set(fed)
    found: dict[str, _Moved] = {}
    for node in graph.node:
        if is_onnx(node) and node.op_type in _ADDS and node.input[0] in unmoved and types.get(node.input[0]) in _UNIT:
            found[_key(node)] = _unit(types[node.input[0]], model.opset)
        if not unmoved.isdisjoint(reads(node)):
            unmoved.update(name for name in node.output if name in varying and name not in moves)
    return found


def _key(node: onnx.NodeProto) -> str:
    """The first output of a node that has a name: a recurrent layer may leave out its first one."""
    return next(filter(None, node.output), "")


def _unit(kind: int, opset: int) -> _Moved:
    """The move of a float tensor by one unit in the last place: x + x * r, where r is -u or u at random."""
    wide = TensorProto.DOUBLE if kind == TensorProto.DOUBLE else TensorProto.FLOAT
    unit = _OF_UNIT * 2.0 ** _UNIT[kind]

    def nodes(before: str, after: str, new: str, seed: int) -> list[onnx.NodeProto]:
        direct = wide == kind
        value, result = (before, after) if direct else (f"{new}value", f"{new}result")
        return [
            *([] if direct else [helper.make_node("Cast", [before], [value], to=wide)]),
            _random(value, f"{new}random", _FAR, seed, wide),
            *_clip(f"{new}random", f"{new}share", (-unit, unit), opset, wide),
            helper.make_node("Mul", [value, f"{new}share"], [f"{new}move"]),
            helper.make_node("Add", [value, f"{new}move"], [result]),
            *([] if direct else [helper.make_node("Cast", [result], [after], to=kind)]),
        ]

    return nodes


def _step(kind: int, opset: int) -> _Moved:
    """The move of a quantised tensor by one step, computed in float32, which has all integers of 16 bits."""

    def nodes(before: str, after: str, new: str, seed: int) -> list[onnx.NodeProto]:
        return [
            helper.make_node("Cast", [before], [f"{new}value"], to=TensorProto.FLOAT),
            _random(f"{new}value", f"{new}random", _FAR, seed, TensorProto.FLOAT),
            *_clip(f"{new}random", f"{new}step", (-1.0, 1.0), opset, TensorProto.FLOAT),
            helper.make_node("Add", [f"{new}value", f"{new}step"], [f"{new}sum"]),
            *_clip(f"{new}sum", f"{new}result", _STEPS[kind], opset, TensorProto.FLOAT),
            helper.make_node("Cast", [f"{new}result"], [after], to=kind),
        ]

    return nodes


def _random(like: str, result: str, limit: float, seed: int, kind: int) -> onnx.NodeProto:
    attributes = {"low": -limit, "high": limit, "seed": float(seed), "dtype": kind}
    return helper.make_node("RandomUniformLike", [like], [result], **attributes)


def _clip(source: str, result: str, limits: tuple[float, float], opset: int, kind: int) -> list[onnx.NodeProto]:
    if opset < _CLIP_TAKES_INPUTS:
        return [helper.make_node("Clip", [source], [result], min=limits[0], max=limits[1])]
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    names = [f"{result}_least", f"{result}_most"]
    constants = [
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(limit, dtype), name))
        for name, limit in zip(names, limits, strict=True)
    ]
    return [*constants, helper.make_node("Clip", [source, *names], [result])]


def _with_moves(
    model: OnnxModel, moves: Mapping[str, _Moved], run: int, operands: Mapping[str, _Moved] | None = None
) -> OnnxModel:
    """`model` with each tensor of `moves` moved where it is made; every reader gets the moved one.

    `operands` move the first operand of single nodes of the main graph, by their keys.
    """
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    numbers = {name: number for number, name in enumerate(moves)}
    read = {name: number for number, name in enumerate(operands or {}, len(moves))}
    every = len(moves) + len(read)
    prefix = unused_prefix(model.proto, "moved_")

    def move(graph: onnx.GraphProto) -> None:
        nodes: list[onnx.NodeProto] = []
        types = {value.name: value.type for value in (*graph.value_info, *graph.output)}
        for node in graph.node:
            for inner in nested(node):
                move(inner)
            made = [(at, name) for at, name in enumerate(node.output) if name in moves]
            key = _key(node)
            if operands and graph is proto.graph and key in operands:
                number = read[key]
                new = f"{prefix}{number}_"
                nodes += operands[key](node.input[0], f"{new}after", new, run * every + number + 1)
                node.input[0] = f"{new}after"
            for at, name in made:
                node.output[at] = f"{prefix}{numbers[name]}_before"
            nodes.append(node)
            for at, name in made:
                number = numbers[name]
                seed = run * every + number + 1
                graph.value_info.add(name=node.output[at], type=types[name])
                nodes += moves[name](node.output[at], name, f"{prefix}{number}_", seed)
        set_nodes(graph, nodes)

    move(proto.graph)
    return model.with_proto(proto)
