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

Inputs = Mapping[str, onnx.ValueInfoProto]


def fix_shapes(proto: onnx.ModelProto, shapes: Shapes, sizes: AxisSizes, where: str) -> tuple[str, ...]:
    """Fixes the shapes of all inputs of `proto`; returns the sentence that says which axes become 1, if any.

    `shapes` are by input, `sizes` by symbol; `where` names the model in messages. An open axis is the batch where it
    stands first and its symbol is a usual name of a batch, or it has none and no other axis can be time: the input is
    an image, or rows of a matrix product. Raises ModelError for what contradicts the model or names nothing in it, and
    DynamicShape for all axes that stay open.
    """
    inputs = _checked_inputs(proto, shapes, where)
    _check_sizes(inputs, sizes, where)
    stated = {symbol: {size} for symbol, size in sizes.items()}
    for name, wanted in shapes.items():
        _check_against_file(name, inputs[name].type.tensor_type, wanted, sizes, where)
        for symbol, extent in zip(map(symbol_of, _dims(inputs[name])), wanted, strict=False):
            if symbol:
                stated.setdefault(symbol, set()).add(extent)
        _set_shape(inputs[name], wanted)
    _set_symbols(inputs.values(), sizes)
    free = [one for name, value in inputs.items() if name not in shapes and (one := free_input(value)) is not None]
    batches = [one for one in free if _has_batch(proto.graph, one) and len(stated.get(one.symbols[0], ())) <= 1]
    known = {symbol: min(extents) for symbol, extents in stated.items() if len(extents) == 1}
    named = {symbol: known.get(symbol, 1) for one in batches if (symbol := one.symbols[0])}
    _set_symbols(inputs.values(), named)
    for one in batches:
        _dims(inputs[one.name])[0].dim_value = named.get(one.symbols[0], 1)
    still_free = [one for one in free if free_input(inputs[one.name]) is not None]
    if still_free:
        raise DynamicShape(_question(proto, inputs, still_free, known | named, where))
    ones = [one for one in batches if one.symbols[0] not in known]
    return (_sentence(ones),) if ones else ()


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
            f"--shape names {unknown[0]!r}, but {where} has the inputs {', '.join(sorted(inputs)) or 'none'}"
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


def _check_against_file(
    name: str, tensor: onnx.TypeProto.Tensor, wanted: tuple[int, ...], sizes: AxisSizes, where: str
) -> None:
    if any(extent < 0 for extent in wanted):
        raise ModelError(f"--shape {name} has a negative extent; give 0 for an empty axis, and more for any other")
    if not tensor.HasField("shape"):
        return
    known = [d.dim_value for d in tensor.shape.dim]
    given = f"--shape {name}={','.join(map(str, wanted))} contradicts"
    if len(known) != len(wanted) or any(k > 0 and k != w for k, w in zip(known, wanted, strict=True)):
        shown = ",".join(str(k) if k > 0 else "?" for k in known)
        raise ModelError(f"{given} {where}, where its shape is {shown or 'empty'}")
    for axis, (dim, extent) in enumerate(zip(tensor.shape.dim, wanted, strict=True)):
        symbol = symbol_of(dim)
        if sizes.get(symbol, extent) != extent:
            raise ModelError(f"{given} --dim {symbol}={sizes[symbol]}, which is its axis {axis}: give one of them")


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


def _sentence(ones: Sequence[FreeInput]) -> str:
    """Which first axes become 1, and the flag that gives another size, in one line."""
    by_symbol: dict[str, list[str]] = {}
    for one in ones:
        by_symbol.setdefault(one.symbols[0], []).append(repr(one.name))
    axes = [
        f"axis 0{f' ({symbol})' if symbol else ''} of input{'s' if len(names) > 1 else ''} {_listed(names)}"
        for symbol, names in by_symbol.items()
    ]
    flags = [f"--dim {shlex.quote(f'{symbol}=N')}" for symbol in by_symbol if symbol]
    flags += [f"--shape {shlex.quote(f'{one.name}={_sizes(one)}')}" for one in ones if not one.symbols[0]]
    return (
        f"{_listed(axes)} {'becomes' if len(ones) == 1 else 'become'} 1, as a board runs one input at a time: "
        f"{_listed(flags)} {'gives' if len(flags) == 1 else 'give'} another size"
    )


def _sizes(one: FreeInput) -> str:
    return ",".join("N" if axis == 0 else str(size) for axis, size in enumerate(one.dims or ()))


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
