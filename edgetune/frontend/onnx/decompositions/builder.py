"""Node builder: emits ONNX nodes one by one, and knows their shapes as soon as they are emitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.node_values import is_sequence, static_shape

if TYPE_CHECKING:
    from edgetune.frontend.onnx.decompositions.loop_writer import LoopWriter
    from edgetune.frontend.onnx.inline import Evaluator

_OPTIONAL = onnx.defs.OpSchema.FormalParameterOption.Optional


class Builder:
    """Emits nodes in place of `node`. Values are names; every method that makes one returns its name."""

    def __init__(self, evaluator: Evaluator, node: onnx.NodeProto) -> None:
        self._evaluator = evaluator
        self._node = node
        self.opset = evaluator.opsets.get("", 1)
        self.attributes: dict[str, Any] = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        self._made: set[int] = set()

    def text(self, name: str, default: str) -> str:
        """A string attribute."""
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else str(value)

    def integer(self, name: str, default: int | None = None) -> int:
        """A whole-number attribute; raises UnsupportedOperator where it is no such, or missing."""
        value = self._number(name, default)
        if not isinstance(value, int):
            raise UnsupportedOperator(f"{self.shown} has an attribute {name} that is no whole number; export it again")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A number attribute; raises UnsupportedOperator where it is something else, or missing with no default."""
        return float(self._number(name, default))

    def _number(self, name: str, default: float | None) -> int | float:
        value = self.attributes.get(name, default)
        if not isinstance(value, int | float):
            wrong = "lacks the attribute" if value is None else "has no number as attribute"
            raise UnsupportedOperator(f"{self.shown} {wrong} {name}; export the model again")
        return value

    def input(self, index: int) -> str:
        """Name of an input, empty when it is left out."""
        return self._node.input[index] if index < len(self._node.input) else ""

    def output(self, index: int, value: str) -> None:
        """Makes `value` the output `index`, unless that output is unused."""
        self._made.add(index)
        if index < len(self._node.output) and self._node.output[index]:
            self._emit("Identity", [value], [self._node.output[index]])

    def require_outputs(self) -> None:
        """Raises UnsupportedOperator where the node has an output that is not made."""
        for index, name in enumerate(self._node.output):
            if name and index not in self._made:
                raise UnsupportedOperator(
                    f"{self.shown} has an output number {index + 1}, {name!r}, which is not supported; export the "
                    "model without it"
                )

    @property
    def shown(self) -> str:
        """The operator, for a message; `simplify` adds which node of the model it is."""
        return f"operator {self._node.op_type}"

    def is_sequence(self, index: int) -> bool:
        """Whether an input is a sequence whose elements are known."""
        return self.input(index) in self._evaluator.sequences

    def sequence(self, index: int) -> list[str]:
        """The elements of an input; raises UnsupportedOperator where they are not known."""
        if not self.is_sequence(index):
            raise UnsupportedOperator(
                f"{self.shown} reads the sequence {self.input(index)!r}, whose elements are only known at run time; "
                "build it of tensors at constant places"
            )
        return self._evaluator.sequences[self.input(index)]

    def output_sequence(self, elements: list[str]) -> None:
        """Makes a sequence of `elements` the first output."""
        self._made.add(0)
        self._evaluator.sequences[self._node.output[0]] = elements

    def typed(self) -> bool:
        """Whether the shapes of all inputs that are tensors are known."""
        types = self._evaluator.types
        return all(not i or is_sequence(i, types) or static_shape(i, types) is not None for i in self._node.input)

    def shape(self, name: str) -> tuple[int, ...]:
        """Extents of a value; raises UnsupportedOperator where they are not known."""
        if not name:
            raise UnsupportedOperator(f"{self.shown} lacks an input that it must have; export the model again")
        found = static_shape(name, self._evaluator.types)
        if found is None:
            raise UnsupportedOperator(
                f"operator {self._node.op_type} reads {name!r}, whose shape is not known before run time; "
                "make it constant in the model"
            )
        return found

    def dtype(self, name: str) -> np.dtype[Any]:
        """Element type of a value."""
        self.shape(name)
        dtype: np.dtype[Any] = helper.tensor_dtype_to_np_dtype(self._evaluator.types[name].tensor_type.elem_type)
        return dtype

    def value(self, name: str) -> np.ndarray | None:
        """The value where it is constant."""
        return self._evaluator.constants.get(name)

    def stored(self, name: str) -> np.ndarray | None:
        """The value where it is constant, also that of integers which nodes of the model widen."""
        return self._evaluator.stored(name)

    def made_by(self, name: str, *operators: str) -> onnx.NodeProto | None:
        """The node of one of these operators that computes a value; None where another one does."""
        node = next((one for one in self._evaluator.nodes if name in one.output), None)
        return node if node is not None and node.op_type in operators else None

    def needed(self, index: int, what: str) -> np.ndarray:
        """The value of an input that must be constant; otherwise raises UnsupportedOperator, which calls it `what`."""
        found = self.value(self.input(index))
        if found is None:
            raise UnsupportedOperator(f"{self.shown} computes its {what} at run time; make it constant in the model")
        return found

    def constant(self, value: Any, dtype: Any = None) -> str:
        """A new constant."""
        name = self._evaluator.prefix() + "constant"
        self._evaluator.set_constant(name, np.asarray(value, dtype))
        return name

    def op(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """The first output of a new node."""
        return self.ops(operator, 1, *inputs, **attributes)[0]

    def ops(self, operator: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """All outputs of a new node."""
        prefix = self._evaluator.prefix()
        names = [f"{prefix}{operator}{i}" for i in range(count)]
        self._emit(operator, list(inputs), names, **attributes)
        return names

    def _emit(self, operator: str, inputs: list[str], outputs: list[str], **attributes: Any) -> None:
        """Emits a node; raises UnsupportedOperator where it lacks an input, as the one that it is a part of does."""
        schema = self._evaluator.schema(helper.make_node(operator, [], []))
        for index, formal in enumerate(schema.inputs if schema else ()):
            if formal.option != _OPTIONAL and formal.min_arity and not any(inputs[index : index + 1]):
                raise UnsupportedOperator(
                    f"{self.shown} lacks an input that it must have: the {operator} in it has no {formal.name}; "
                    "export the model again"
                )
        self._evaluator.emit(operator, inputs, outputs, **attributes)

    def loop(self, steps: int) -> LoopWriter:
        """The body of a loop of `steps` iterations, which stands for a part of the node."""
        from edgetune.frontend.onnx.decompositions.loop_writer import LoopWriter  # its builder is one of this class

        return LoopWriter(self._evaluator, self._node, steps)

    def cast(self, name: str, dtype: Any) -> str:
        """`name` as `dtype`."""
        return self.op("Cast", name, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def reshape(self, name: str, *shape: int) -> str:
        """`name` in another shape; what has no elements is a constant, since Reshape reads 0 as a copied extent."""
        if 0 in shape and min(shape) == 0:
            if 0 not in self.shape(name):
                raise UnsupportedOperator(f"{self.shown} has sizes that do not fit one another; export the model again")
            return self.constant(np.zeros(shape), self.dtype(name))
        return self.op("Reshape", name, self.constant(shape, "int64"))

    def take(self, name: str, index: int, axis: int) -> str:
        """One slice, without the axis."""
        rest = [e for i, e in enumerate(self.shape(name)) if i != axis]
        return self.reshape(self.part(name, index, index + 1, axis), *rest)

    def part(self, name: str, start: int, stop: int, axis: int) -> str:
        """Elements start to stop - 1 along an axis."""
        if self.opset < 10:
            return self.op("Slice", name, starts=[start], ends=[stop], axes=[axis])
        bounds = [self.constant([v], "int64") for v in (start, stop, axis)]
        return self.op("Slice", name, *bounds)

    def first(self, name: str, *shape: int) -> str:
        """The first elements along each axis: a value of `shape`, with no more elements along any axis than before."""
        axes = [axis for axis, (have, want) in enumerate(zip(self.shape(name), shape, strict=True)) if want < have]
        if not axes:
            return name
        starts, ends = [0] * len(axes), [shape[axis] for axis in axes]
        if self.opset < 10:
            return self.op("Slice", name, starts=starts, ends=ends, axes=axes)
        return self.op("Slice", name, *(self.constant(v, "int64") for v in (starts, ends, axes)))

    def total(self, name: str, axis: int) -> str:
        """The sum along an axis, which stays with extent 1."""
        if self.opset >= 13:
            return self.op("ReduceSum", name, self.constant([axis], "int64"), keepdims=1)
        return self.op("ReduceSum", name, axes=[axis], keepdims=1)

    def mean(self, name: str, axes: list[int], *, keepdims: bool = True) -> str:
        """The mean along axes, which stay with extent 1."""
        if self.opset >= 18:
            return self.op("ReduceMean", name, self.constant(axes, "int64"), keepdims=int(keepdims))
        return self.op("ReduceMean", name, axes=axes, keepdims=int(keepdims))

    def scaled(self, name: str, factor: float) -> str:
        """`name` times a number, in its own type."""
        return name if factor == 1 else self.op("Mul", name, self.constant(factor, self.dtype(name)))

    def moved(self, name: str, *axes: int) -> str:
        """`name` with its axes in another order."""
        return name if list(axes) == sorted(axes) else self.op("Transpose", name, perm=list(axes))

    def stack(self, values: list[str], axis: int) -> str:
        """Values of one shape side by side along a new axis."""
        shape = list(self.shape(values[0]))
        shape.insert(axis, 1)
        parts = [self.reshape(value, *shape) for value in values]
        return self.op("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]
