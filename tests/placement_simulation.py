"""Programs of nothing but slices, concatenations and kernels that read all of their operands; and what becomes of them.

Each element has a label instead of a value: who computed it, and where. So whether every call of a program with parts
reads what it read without them is known without compiling anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from tvm import te, topi

from edgetune.graph.kernels import kernel_of, plain_function
from edgetune.graph.program import Buffer, BufferKind, Call, Kernel, Program, TensorSpec
from edgetune.graph.views.copy_kernels import concatenation_of, slice_of
from edgetune.graph.workload import workload_hash

Shape = tuple[int, ...]


class Sketch:
    """A program in the making; calls are labelled by their number. Tensors may be read in any shape of their size."""

    def __init__(self, shape: Shape) -> None:
        self.buffers = [Buffer(0, "x", shape, "float32", "input")]
        self.kernels: dict[str, Kernel] = {}
        self.calls: list[Call] = []

    def compute(self, operands: Sequence[int], shape: Shape) -> int:
        """A kernel that computes a tensor of `shape` from all of the operands, which have that shape."""
        return self._call(_computed(len(operands), shape), operands, shape)

    def cut(self, operand: int, seen: Shape, begins: Shape, ends: Shape) -> int:
        """A slice of a tensor that is seen in a shape."""
        return self._call(_cut(seen, begins, ends), [operand], tuple(e - b for b, e in zip(begins, ends, strict=True)))

    def join(self, operands: Sequence[int], shapes: Sequence[Shape], axis: int) -> int:
        """A concatenation."""
        whole = (*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :])
        return self._call(_joined(tuple(shapes), axis), operands, whole)

    def program(self, outputs: Sequence[int]) -> Program:
        """The program that answers with these tensors, and with all that nothing reads."""
        read = {argument for call in self.calls for argument in call.arguments[:-1]}
        kinds: dict[int, BufferKind] = {b.id: "output" for b in self.buffers[1:] if b.id in outputs or b.id not in read}
        buffers = [Buffer(b.id, b.name, b.shape, b.dtype, kinds.get(b.id, b.kind)) for b in self.buffers]
        specs = [TensorSpec(b.name, b.shape, b.dtype) for b in buffers if b.kind == "output"]
        inputs = (TensorSpec("x", buffers[0].shape, "float32"),)
        return Program(
            "p", inputs, tuple(specs), tuple(buffers), tuple(self.kernels.values()), tuple(self.calls), {}, "0"
        )

    def _call(self, kernel: Kernel, operands: Sequence[int], shape: Shape) -> int:
        self.kernels.setdefault(kernel.workload, kernel)
        result = len(self.buffers)
        self.buffers.append(Buffer(result, f"t{result}", shape, "float32", "intermediate"))
        number = list(self.kernels).index(kernel.workload)
        self.calls.append(Call(number, (*operands, result), str(len(self.calls))))
        return result


@lru_cache(None)
def _computed(count: int, shape: Shape) -> Kernel:
    read = [te.placeholder(shape, "float32") for _ in range(count)]
    return _kernel("sum", read, te.compute(shape, lambda *i: sum((x(*i) for x in read[1:]), read[0](*i) * 2.0)))


@lru_cache(None)
def _cut(shape: Shape, begins: Shape, ends: Shape) -> Kernel:
    read = te.placeholder(shape, "float32")
    return _kernel("strided_slice", [read], topi.strided_slice(read, begins, ends, [1] * len(shape)))


@lru_cache(None)
def _joined(shapes: tuple[Shape, ...], axis: int) -> Kernel:
    read = [te.placeholder(shape, "float32") for shape in shapes]
    return _kernel("concatenate", read, topi.concatenate(tuple(read), axis=axis))


def _kernel(name: str, read: Sequence[Any], result: Any) -> Kernel:
    mask = [False] * len(read)
    function = plain_function(te.create_prim_func([*read, result]), mask)
    return kernel_of((name,), workload_hash(function), function, mask, 1)


def difference(old: Program, new: Program) -> str | None:
    """What `new` reads or answers with that is not what `old` does; None where there is nothing."""
    reads, writes, answers = _of_old(old)
    memory: dict[int, np.ndarray] = {buffer.id: np.full(prod(buffer.shape), -1) for buffer in new.buffers}
    memory[new.input_buffers()[0].id] = np.arange(prod(old.buffers[0].shape))
    for call in new.calls:
        kernel = new.kernels[call.kernel]
        places = [
            param.elements + (call.parts[n].offset if n in call.parts else 0) for n, param in enumerate(kernel.params)
        ]
        *operands, result = (memory[argument] for argument in call.arguments)
        for argument, place in zip(call.arguments[:-1], places, strict=False):
            if argument == call.arguments[-1] and set(place) & set(places[-1]):
                return f"{call.label} reads what it writes"
        if kernel.sources == ("copy",):
            result[places[-1]] = operands[0][places[0]]
            continue
        number = int(call.label)
        for found, place, expected in zip(operands, places, reads[number], strict=False):
            if not np.array_equal(found[place], expected):
                return f"{call.label} reads something else"
        result[places[-1]] = writes[number]
    for buffer, answer in zip(new.output_buffers(), answers, strict=True):
        if not np.array_equal(memory[buffer.id], answer):
            return f"{buffer.name} is something else"
    return None


def _of_old(program: Program) -> tuple[list[list[np.ndarray]], list[np.ndarray], list[np.ndarray]]:
    """Labels that each call reads and writes, and those of the outputs; every tensor is a buffer of its own."""
    memory = {0: np.arange(prod(program.buffers[0].shape))}
    reads, writes = [], []
    for number, call in enumerate(program.calls):
        kernel = program.kernels[call.kernel]
        operands = [memory[argument] for argument in call.arguments[:-1]]
        size = prod(kernel.params[-1].shape)
        joined, cut = concatenation_of(kernel), slice_of(kernel)
        if joined is not None:
            written = np.concatenate([operand.reshape(joined.outer, -1) for operand in operands], 1).reshape(-1)
        elif "strided_slice" in kernel.sources:
            written = memory[call.arguments[0]][_cut_places(kernel)]
            assert cut is None or np.array_equal(
                written,
                memory[call.arguments[0]][
                    cut.offset
                    + sum(np.ix_(*(np.arange(e) * stride for e, stride in cut.axes)), np.array(0)).reshape(-1)
                ],
            )
        else:
            written = (number + 1) * 10**6 + np.arange(size)
        memory[call.arguments[-1]] = written
        reads.append(operands)
        writes.append(written)
    return reads, writes, [memory[buffer.id] for buffer in program.output_buffers()]


def _cut_places(kernel: Kernel) -> np.ndarray:
    """Where the elements of a slice lie in its operand, by the indices in the function itself."""
    source, result = kernel.params
    block = kernel.function.body.block.body
    while not hasattr(block, "block"):
        block = block.body
    load = block.block.body.value
    axes = [axis.var for axis in block.block.iter_vars]
    starts = [_start(index, axis) for index, axis in zip(load.indices, axes, strict=True)]
    places = np.arange(prod(source.shape)).reshape(source.shape)
    return places[tuple(slice(s, s + e) for s, e in zip(starts, result.shape, strict=True))].reshape(-1)


def _start(index: Any, axis: Any) -> int:
    return 0 if index.same_as(axis) else int(index.b.value)
