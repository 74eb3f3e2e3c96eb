"""Input shapes: fixes those that a model leaves open, from what the user states and from what a batch is.

A symbol is the same size wherever it stands, as ONNX defines it. An axis that is the batch becomes 1, because a board
runs one input at a time; a sentence says so. Every other open axis is asked for, all of them at once.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

import onnx

from edgetune.errors import DynamicShape, ModelError
from edgetune.frontend.model_format import AxisSizes, Shapes
from edgetune.frontend.onnx.free_axes import (
    FreeInput,
    free_input,
    multiplied_by_rows,
    proposed_shapes,
    size_of,
    symbol_of,
)
from edgetune.frontend.onnx.node_values import real_inputs

_BATCH = re.compile(r"batch([ _.-]?(size|dim|axis))?|unk__.*|.*dim.*\.0", re.IGNORECASE | re.DOTALL)
_SHORT = "N"  # a small n is as often a number of points
_IMAGE_RANK, _ROWS_RANK = 4, 2
_OTHER = 4  # a batch that messages give as an example

Inputs = Mapping[str, onnx.ValueInfoProto]


def fix_shapes(proto: onnx.ModelProto, shapes: Shapes, sizes: AxisSizes, where: str) -> tuple[str, ...]:
    """Fixes the shapes of all inputs of `proto`; returns the sentence that says which axes become 1, if any.

    `shapes` are by input, `sizes` by symbol; `where` names the model in messages. An open axis is the batch where it
    stands first and its symbol is a usual name of a batch that no input has twice, or it has none and no other axis can
    be time: the input is an image, or rows of a matrix product. Raises ModelError for what contradicts the model or
    names nothing in it, and DynamicShape for all axes that stay open.
    """
    inputs = _checked_inputs(proto, shapes, where)
    _check_sizes(inputs, sizes, where)
    for name, wanted in shapes.items():
        _check_against_file(name, inputs[name].type.tensor_type, wanted, where)
    known = _sizes_by_symbol(inputs, shapes, sizes)
    for name, wanted in shapes.items():
        _set_shape(inputs[name], wanted)
    _set_symbols(inputs.values(), known)
    free = [one for value in inputs.values() if (one := free_input(value)) is not None]
    twice = {symbol for one in free for symbol in one.symbols if one.symbols.count(symbol) > 1} - {""}
    batches = [one for one in free if _has_batch(proto.graph, one) and one.symbols[0] not in twice]
    named = {one.symbols[0]: 1 for one in batches if one.symbols[0]}
    axes = [(one.name, axis, symbol) for one in free for axis, symbol in enumerate(one.symbols) if symbol in named]
    unnamed = [one for one in batches if not one.symbols[0]]
    _set_symbols(inputs.values(), named)
    for one in unnamed:
        _dims(inputs[one.name])[0].dim_value = 1
    still_free = [one for one in free if free_input(inputs[one.name]) is not None]
    if still_free:
        raise DynamicShape(_question(proto, inputs, still_free, known | named, where))
    return (_sentence(axes, unnamed),) if batches else ()


def _checked_inputs(proto: onnx.ModelProto, shapes: Shapes, where: str) -> Inputs:
    for output in proto.graph.output:
        if output.type.WhichOneof("value") not in {None, "tensor_type"}:
            raise ModelError(
                f"output {output.name!r} of {where} is not a tensor; only tensor outputs can be built: "
                "make each element an output of its own"
            )
    inputs = {i.name: i for i in real_inputs(proto.graph)}
    unknown = sorted(set(shapes) - set(inputs))
    if unknown:
        raise ModelError(
            f"--shape names {unknown[0]!r}, but {where} has the inputs {', '.join(sorted(inputs)) or 'none'}",
            of_inputs=True,
        )
    for name, value in inputs.items():
        if not value.type.HasField("tensor_type"):
            raise ModelError(f"input {name!r} of {where} is not a tensor; only tensor inputs can be built")
    return inputs


def _check_sizes(inputs: Inputs, sizes: AxisSizes, where: str) -> None:
    symbols = list(dict.fromkeys(s for value in inputs.values() for s in map(symbol_of, _dims(value)) if s))
    for name, size in sizes.items():
        if name not in symbols:
            named = f"the named axes {', '.join(symbols)}" if symbols else "no named axes: give --shape"
            raise ModelError(f"--dim names {name!r}, but {where} has {named}")
        if size < 0:
            raise ModelError(f"--dim {name} has a negative size; give 0 for an empty axis, and more for any other")


def _check_against_file(name: str, tensor: onnx.TypeProto.Tensor, wanted: tuple[int, ...], where: str) -> None:
    if any(extent < 0 for extent in wanted):
        raise ModelError(f"--shape {name} has a negative extent; give 0 for an empty axis, and more for any other")
    if not tensor.HasField("shape"):
        return
    known = [d.dim_value for d in tensor.shape.dim]
    if len(known) != len(wanted) or any(k > 0 and k != w for k, w in zip(known, wanted, strict=True)):
        shown = ",".join(str(k) if k > 0 else "?" for k in known)
        raise ModelError(
            f"--shape {_flag(name, wanted)} contradicts {where}, where its shape is {shown or 'empty'}: give that one",
            of_inputs=True,
        )


def _sizes_by_symbol(inputs: Inputs, shapes: Shapes, sizes: AxisSizes) -> dict[str, int]:
    """Sizes that `sizes` and `shapes` give to symbols; raises ModelError where one is given two."""
    known = dict(sizes)
    flags = {symbol: f"--dim {_flag(symbol, (size,))}" for symbol, size in sizes.items()}
    for name, wanted in shapes.items():
        flag = f"--shape {_flag(name, wanted)}"
        for symbol, extent in zip(map(symbol_of, _dims(inputs[name])), wanted, strict=False):
            if symbol and known.setdefault(symbol, extent) != extent:
                other = flags[symbol]
                given = f"{other} and {flag} give" if other != flag else f"{flag} gives"
                raise ModelError(
                    f"{given} the axis {symbol!r} the sizes {known[symbol]} and {extent}, and an axis of one name has "
                    "one size: give the same",
                    of_inputs=True,
                )
            if symbol:
                flags.setdefault(symbol, flag)
    return known


def _dims(value: onnx.ValueInfoProto) -> Sequence[onnx.TensorShapeProto.Dimension]:
    dims: Sequence[onnx.TensorShapeProto.Dimension] = value.type.tensor_type.shape.dim
    return dims


def _set_shape(value: onnx.ValueInfoProto, wanted: tuple[int, ...]) -> None:
    tensor = value.type.tensor_type
    tensor.ClearField("shape")
    tensor.shape.SetInParent()
    for extent in wanted:
        tensor.shape.dim.add().dim_value = extent


def _set_symbols(values: Iterable[onnx.ValueInfoProto], sizes: AxisSizes) -> None:
    for dim in (dim for value in values for dim in _dims(value)):
        if (symbol := symbol_of(dim)) in sizes:
            dim.dim_value = sizes[symbol]


def _has_batch(graph: onnx.GraphProto, one: FreeInput) -> bool:
    """Whether the first axis of `one` is open, and the batch."""
    if not one.dims or one.dims[0] is not None:
        return False
    if one.symbols[0]:
        return one.symbols[0] == _SHORT or _BATCH.fullmatch(one.symbols[0]) is not None
    return len(one.dims) == _IMAGE_RANK or (len(one.dims) == _ROWS_RANK and multiplied_by_rows(graph, one.name))


def _sentence(named: Sequence[tuple[str, int, str]], unnamed: Sequence[FreeInput]) -> str:
    """Which axes become 1, and the flags that give another size, in one line.

    `named` are axes as input, number and symbol; of `unnamed` it is the first axis.
    """
    inputs: dict[str, list[str]] = {}
    for name, axis, symbol in [*named, *((one.name, 0, "") for one in unnamed)]:
        inputs.setdefault(f"axis {axis}{f' ({symbol})' if symbol else ''}", []).append(repr(name))
    axes = [f"{axis} of input{'s' if len(names) > 1 else ''} {_listed(names)}" for axis, names in inputs.items()]
    flags = [f"--dim {_flag(symbol, (_OTHER,))}" for symbol in dict.fromkeys(symbol for _, _, symbol in named)]
    flags += [f"--shape {_flag(one.name, (_OTHER, *(one.dims or ())[1:]))}" for one in unnamed]
    return (
        f"{_listed(axes)} {'becomes' if len(axes) == 1 else 'become'} 1, as a board runs one input at a time: "
        f"{_listed(flags)} {'gives' if len(flags) == 1 else 'give'} another size"
    )


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


def _question(proto: onnx.ModelProto, inputs: Inputs, free: Sequence[FreeInput], known: AxisSizes, where: str) -> str:
    """The sentence that names all open axes of the inputs `free`, with flags that fix them.

    Where all of them but batches have symbols, `--dim` fixes them too. `known` are sizes by symbol.
    """
    shapes = proposed_shapes(proto.graph, free, list(proto.opset_import), known)
    flags = " ".join(f"--shape {_flag(name, shape)}" for name, shape in shapes.items())
    asked = [
        (symbol_of(dim), shapes[one.name][axis])
        for one in free
        for axis, dim in enumerate(_dims(inputs[one.name]))
        if size_of(dim) is None
    ]
    by_name = ""
    if all(symbol for symbol, _ in asked) and all(one.dims is not None for one in free):
        named = " ".join(f"--dim {_flag(symbol, (size,))}" for symbol, size in dict(asked).items())
        by_name = f", or by name with {named}"
    return (
        f"{' and '.join(one.in_words for one in free)} in {where}: fix all sizes, for example with {flags} "
        f"(an example; use the sizes that the model runs with){by_name}"
    )


def _flag(name: str, sizes: Sequence[object]) -> str:
    return shlex.quote(f"{name}={','.join(map(str, sizes))}")
