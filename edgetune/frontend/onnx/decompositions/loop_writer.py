"""Writes the body of a loop over time, and the loop itself (`edgetune.frontend.onnx.scan_loop`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import onnx
from onnx import helper

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.decompositions.builder import Builder
from edgetune.frontend.onnx.node_values import static_shape
from edgetune.frontend.onnx.origins import origin_of
from edgetune.frontend.onnx.scan_loop import LoopGraph, LoopSignature

if TYPE_CHECKING:
    from edgetune.frontend.onnx.inline import Evaluator


class LoopWriter:
    """The body of a loop that stands for `node`: its nodes are emitted into `inner`, most simply through `builder`."""

    def __init__(self, outer: Evaluator, node: onnx.NodeProto, steps: int) -> None:
        self._outer = outer
        self.inner = outer.inner()
        self.builder = Builder(self.inner, node)
        self._node = node
        self._steps = steps
        self._states: list[tuple[str, str]] = []
        self._scanned: list[tuple[str, str, bool]] = []
        self._besides: dict[str, str] = {}

    def state(self, first: str) -> str:
        """The name in the body of a state that is `first` before the loop."""
        shape, element = self._known(first)
        self._states.append((first, self._input("state", shape, element)))
        return self._states[-1][1]

    def scanned(self, whole: str, *, backwards: bool = False) -> str:
        """The name in the body of one slice of `whole` along its first axis; `backwards`: the last one comes first."""
        shape, element = self._known(whole)
        self._scanned.append((whole, self._input("slice", shape[1:], element), backwards))
        return self._scanned[-1][1]

    def besides(self, name: str) -> str:
        """The name in the body of a value that all iterations read; a constant is one there as well."""
        if name not in self._besides:
            if name in self._outer.constants:
                self._besides[name] = self.inner.prefix() + "constant"
                self.inner.set_constant(self._besides[name], self._outer.constants[name])
            else:
                self._besides[name] = self._input("read", *self._known(name))
        return self._besides[name]

    def is_whole(self) -> bool:
        """Whether the shapes of all that its nodes make are known."""
        made = (name for node in self.inner.nodes for name in node.output if name)
        return all(static_shape(name, self.inner.types) is not None for name in made)

    def close(self, states: Sequence[str], emitted: Sequence[tuple[str, bool]]) -> tuple[list[str], list[str]]:
        """Emits the loop: the last values of the states, and the tensors made of the slices that are `emitted`.

        `states` are the next values of the states, in the order in which `state` made them; `emitted` are values of the
        body, and if the last slice comes first. Names are of the body, and the results are names around it.
        """
        outputs: list[str] = []
        given = {name for _, name in self._states} | {name for _, name, _ in self._scanned}
        given.update(self._besides.values())

        def output(value: str, *, apart: bool) -> int:
            value = self._source(value)
            if value in given or value in self.inner.constants or (apart and value in outputs):
                copied = self.inner.prefix() + "copied"
                self.inner.emit("Identity", [value], [copied])
                value = copied
            if value not in outputs:
                outputs.append(value)
            return outputs.index(value)

        made = [
            (output(value, apart=self._is_emitted(emitted[:n], self._source(value))), back)
            for n, (value, back) in enumerate(emitted)
        ]
        next_states = [output(value, apart=False) for value in states]
        results = [self._typed(first) for first, _ in self._states]
        for number, _ in made:
            shape, dtype = self._typed_inside(outputs[number])
            results.append(((self._steps, *shape), dtype))
        prefix = self._outer.prefix()
        names = [f"{prefix}last{n}" for n in range(len(states))] + [f"{prefix}all{n}" for n in range(len(made))]
        label, _ = origin_of(self._outer.origin)
        loop = LoopSignature(
            f"{prefix}loop",
            self._steps,
            tuple(next_states),
            tuple(backwards for _, _, backwards in self._scanned),
            tuple(made),
            label,
            tuple(results),
        )
        read = [first for first, _ in self._states] + [whole for whole, _, _ in self._scanned]
        read += [name for name in self._besides if name not in self._outer.constants]
        self._outer.misfits += self.inner.misfits
        self._outer.emit_loop(loop, read, names, self._graph(outputs))
        return names[: len(states)], names[len(states) :]

    def _source(self, value: str) -> str:
        """What a value of the body is another name of."""
        same = {node.output[0]: node.input[0] for node in self.inner.nodes if node.op_type == "Identity"}
        while value in same:
            value = same[value]
        return value

    def _is_emitted(self, emitted: Sequence[tuple[str, bool]], value: str) -> bool:
        return any(self._source(other) == value for other, _ in emitted)

    def _graph(self, outputs: Sequence[str]) -> LoopGraph:
        graph = self.inner.proto.graph
        order = [name for _, name in self._states] + [name for _, name, _ in self._scanned]
        order += [self._besides[name] for name in self._besides if name not in self._outer.constants]
        inputs = {value.name: value for value in graph.input}
        ordered = [inputs[name] for name in order]
        kept = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in ordered]
        del graph.input[:]
        graph.input.extend(kept)
        graph.output.extend(helper.make_value_info(name, self.inner.types[name]) for name in outputs)
        model, large = self.inner.model()
        return LoopGraph(model.graph, large)

    def _input(self, role: str, shape: Sequence[int], element: int) -> str:
        name = f"{self.inner.prefix()}{role}"
        self.inner.declare(helper.make_tensor_value_info(name, element, shape))
        return name

    def _known(self, name: str) -> tuple[tuple[int, ...], int]:
        shape = static_shape(name, self._outer.types)
        if shape is None or name in self._outer.narrow:
            raise UnsupportedOperator(
                f"{self.builder.shown} reads {name!r}, whose shape is not known before run time; make it constant"
            )
        return shape, self._outer.types[name].tensor_type.elem_type

    def _typed(self, name: str) -> tuple[tuple[int, ...], str]:
        shape, element = self._known(name)
        return shape, helper.tensor_dtype_to_np_dtype(element).name

    def _typed_inside(self, name: str) -> tuple[tuple[int, ...], str]:
        shape, dtype = self.builder.shape(name), self.builder.dtype(name)
        return shape, dtype.name
