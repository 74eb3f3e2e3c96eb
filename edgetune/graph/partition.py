"""Graph partitioning: cuts a fused Relax module into kernels, buffers and calls."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import tvm
from tvm import relax
from tvm.ir import GenericConst

from edgetune.errors import UnsupportedOperator
from edgetune.graph.constant_channels import ConstantChannels
from edgetune.graph.evaluate import evaluate
from edgetune.graph.fixed_point import LEAST_SHIFT, MOST_LITTLE_SHIFT
from edgetune.graph.imported import Imported, ImportedLoop
from edgetune.graph.joined_calls import with_joined_calls
from edgetune.graph.kernel_names import operators, summary
from edgetune.graph.kernels import (
    SCALES_SHIFT,
    SCALES_SHIFT_LITTLE,
    SYMMETRIC_BYTES,
    copy_function,
    kernel_of,
    named,
    plain_function,
)
from edgetune.graph.layer_names import layer_label, place_of
from edgetune.graph.loop_bodies import LoopBody, opaque_function, with_bodies
from edgetune.graph.narrow_results import narrow_result, widens_what_it_reads
from edgetune.graph.passes import Fused, fuse
from edgetune.graph.program import Buffer, BufferKind, Call, Kernel, LeftOut, Program, TensorSpec
from edgetune.graph.rewrite import callee_of, readers_of, tensor_of
from edgetune.graph.ring_reads import cost_of_moves, states_moved
from edgetune.graph.rings import with_rings
from edgetune.graph.row_functions import ROW_WRITE
from edgetune.graph.states import with_states
from edgetune.graph.stored_integers import StoredIntegers, stored_integers, widened_when_read, with_stored
from edgetune.graph.tvm_errors import tvm_refusals
from edgetune.graph.views.eliminate_copies import without_copies
from edgetune.graph.ways import USUAL, Ways
from edgetune.graph.widened_integers import Widened, widened
from edgetune.graph.workload import workload_hash
from edgetune.graph.written_loops import is_written
from edgetune.tvm_types import PrimFunc


def to_program(
    imported: Imported,
    *,
    ways: Ways = USUAL,
    states: Mapping[str, str] | None = None,
) -> Program:
    """Runs the graph passes (see `fuse`) and cuts the result into a `Program`.

    `states` are inputs that are to become states, by name, with their outputs: those that can are ring buffers, unless
    a kernel would move their rows all the same, and at higher cost.
    Raises UnsupportedOperator if an operator has no kernel, or TVM refuses one.
    """
    pairs = states or {}
    program = _to_program(imported, pairs, (), ways)
    if slow := states_moved(with_states(program, pairs)):
        other = _to_program(imported, pairs, slow, ways)
        return min((program, other), key=lambda one: cost_of_moves(with_states(one, pairs)))
    return program


def _to_program(imported: Imported, pairs: Mapping[str, str], apart: Collection[str], ways: Ways) -> Program:
    """The program of `imported`, of whose states those `apart` are no rings."""
    imported, rings = with_rings(imported, pairs, apart)
    exchanged = [i for i, tensor in enumerate(imported.inputs) if tensor.name in imported.images]
    inputs = len(imported.inputs)
    known = dict(enumerate(imported.weights.values(), inputs))
    fused = fuse(imported.module, exchanged, ways, places=imported.places, inputs=inputs, known=known)
    with tvm_refusals(f"model {imported.name}"):
        program = replace(partition(fused, imported), rings=rings)
    return replace(program, constant_channels=tuple(_left_out(one, imported) for one in fused.constant))


def _left_out(found: ConstantChannels, imported: Imported) -> LeftOut:
    label = layer_label(imported.nodes, [] if found.node is None else [found.node], "product")
    return LeftOut(label.removesuffix(" (product)"), found.left_out, found.channels)


def partition(fused: Fused, imported: Imported) -> Program:
    """Cuts the result of `fuse`: `main` binds call_tir of PrimFuncs, reshapes and tuples.

    If the number of calls differs from that of `fused.nodes`, calls get no node names.
    """
    cutter = _Cutter(fused.module, imported, fused.nodes, fused.functions)
    cutter.run()
    return with_bodies(without_copies(cutter.program()), cutter.bodies)


def _partitioned_body(loop: ImportedLoop, bound: Mapping[int, np.ndarray | Widened]) -> LoopBody:
    """The body of a loop as a program, whose inputs with the numbers in `bound` are constants."""
    known = {number: value for number, value in bound.items() if isinstance(value, np.ndarray)}
    ways = Ways(keeps_channels=True)  # the report names layers of the model itself
    fused = fuse(loop.body.module, (), ways, places=loop.body.places, known=known)
    cutter = _Cutter(fused.module, loop.body, fused.nodes, fused.functions, bound=bound)
    cutter.run()
    program = with_bodies(with_joined_calls(without_copies(cutter.program())), cutter.bodies)
    return LoopBody(program, loop.steps, loop.state_outputs, loop.scanned_backwards, loop.emitted, loop.label)


_MOST_SHIFT = 31  # and the bits of a scale that shift


def _are_symmetric(constants: Sequence[np.ndarray]) -> bool:
    """Whether there are constants of type int8, and none of them has the least number of that type."""
    found = [one for one in constants if one.dtype == np.int8]
    return bool(found) and all(int(one.min(initial=0)) > np.iinfo(np.int8).min for one in found)


def _all_shift(constant: np.ndarray, most: int) -> bool:
    """Whether a constant has scales, all of which shift by `LEAST_SHIFT` to `most` bits."""
    if constant.dtype != np.uint32 or not constant.size:
        return False
    shifts = constant & np.uint32(_MOST_SHIFT)
    return int(shifts.min()) >= LEAST_SHIFT and int(shifts.max()) <= most


_WIDENING = ("cast", "subtract", "multiply", "dequantize")


def _before(sources: tuple[str, ...], dropped: int) -> tuple[str, ...]:
    """The operators of a kernel without those that widen its result, of which the last stages were `dropped`."""
    while dropped > 0 and len(sources) > 1 and sources[-1] in _WIDENING:
        dropped -= 1 if sources[-1] != "dequantize" else dropped
        sources = sources[:-1]
    return sources


@dataclass
class _Work:
    function: PrimFunc
    operators: tuple[str, ...]
    mask: tuple[bool, ...]
    calls: int = 0
    scales: dict[str, set[int]] = field(default_factory=dict)
    """By attribute: the constant scales that shift as it says in all calls. It makes no other workload."""

    def called(self, scales: Mapping[str, set[int]]) -> None:
        """Note a call whose constant scales shift so."""
        self.calls += 1
        self.scales = {one: found & self.scales.get(one, found) for one, found in scales.items()}

    def with_scales(self) -> PrimFunc:
        """The function, which says of its scales how they shift."""
        function = self.function
        for attribute, numbers in self.scales.items():
            function = function.with_attr(attribute, sorted(numbers)) if numbers else function
        return function


@dataclass
class _Cutter:
    module: tvm.IRModule
    imported: Imported
    nodes: Sequence[Sequence[int]]
    functions: Mapping[str, tuple[str, ...]]
    buffers: list[Buffer] = field(default_factory=list)
    constants: dict[int, np.ndarray] = field(default_factory=dict)
    work: dict[str, _Work] = field(default_factory=dict)
    calls: list[tuple[str, tuple[int, ...], str]] = field(default_factory=list)
    values: dict[relax.Var, list[int]] = field(default_factory=dict)
    by_content: dict[tuple[bytes, str, tuple[int, ...]], int] = field(default_factory=dict)
    widened: dict[int, Widened] = field(default_factory=dict)
    """Constants that only widen integers, by the number of a buffer that no kernel reads."""
    bound: Mapping[int, np.ndarray | Widened] = field(default_factory=dict)
    bodies: dict[str, LoopBody] = field(default_factory=dict)
    narrow: dict[int, tuple[int, Widened]] = field(default_factory=dict)
    """Tensors that lie in memory as integers, by the number of a buffer that no kernel writes: in which buffer, and
    what widens them; the array of integers says only their shape and type."""

    def run(self) -> None:
        main = self.module["main"]
        bound = [b for block in main.body.blocks for b in block.bindings]
        self.readers = readers_of(main)
        expected = sum(callee_of(binding.value) == "relax.call_tir" for binding in bound)
        self.waiting = list(self.nodes) if len(self.nodes) == expected else [[]] * expected
        names = [s.name for s in self.imported.inputs]
        for index, param in enumerate(main.params):
            shape, dtype = tensor_of(param.ty)
            if index in self.bound:
                known = self.bound[index]
                self.values[param] = [self._widened(known) if isinstance(known, Widened) else self._constant(known)]
            elif index < len(names):
                self.values[param] = [self._buffer(names[index], shape, dtype, "input")]
            else:
                array = list(self.imported.weights.values())[index - len(names)]
                self.values[param] = [self._constant(array)]
        for binding in bound:
            self.values[binding.var] = self._bind(binding)
        self._outputs(main.body.body)

    def _bind(self, binding: relax.Binding) -> list[int]:
        value = binding.value
        if isinstance(value, relax.Call):
            name = callee_of(value)
            if name == "relax.call_tir":
                return self._call_tir(value, binding.var)
            if name == "relax.reshape":
                return self._reshape(value)
            if name == "relax.call_dps_packed":
                return self._loop(value)
            operator = f"{name.removeprefix('relax.')} in model {self.imported.name}"
            raise UnsupportedOperator(
                f"{place_of(binding.var, self.imported.places) or operator} has no kernel; "
                "replace the operator in the model, or give its shape-like inputs as constants"
            )
        return self._read(value)

    def _read(self, value: relax.Expr) -> list[int]:
        if isinstance(value, relax.Var):
            return self.values[value]
        if isinstance(value, GenericConst):
            return [self._constant(value.value.numpy())]
        if isinstance(value, relax.Tuple):
            return [i for f in value.fields for i in self._read(f)]
        if isinstance(value, relax.TupleGetItem):
            return [self._read(value.tuple_value)[value.index]]
        raise UnsupportedOperator(
            f"model {self.imported.name} needs {type(value).__name__} at run time (control flow or a run-time shape), "
            "which cannot be built; make it constant in the model"
        )

    def _reshape(self, call: relax.Call) -> list[int]:
        source = self._read(call.args[0])
        if source[0] in self.narrow:
            integers, tensor = self.narrow[source[0]]
            return [self._stand_in(integers, tensor.reshape(tensor_of(call.ty)[0]))]
        if source[0] in self.widened:
            return [self._widened(self.widened[source[0]].reshape(tensor_of(call.ty)[0]))]
        if source[0] not in self.constants:
            return source
        return [self._constant(self.constants[source[0]].reshape(tensor_of(call.ty)[0]))]

    def _call_tir(self, call: relax.Call, result: relax.Var) -> list[int]:
        global_var = call.args[0]
        if len(call.args) > 2:
            raise UnsupportedOperator(
                f"{global_var.name_hint} in model {self.imported.name} has a run-time shape; fix all shapes"
            )
        arguments = self._read(call.args[1])
        types = list(call.ty.fields) if isinstance(call.ty, relax.TupleType) else [call.ty]
        sources = operators(self.functions.get(global_var.name_hint, (global_var.name_hint,)))
        nodes = self.waiting.pop(0)
        label = layer_label(self.imported.nodes, nodes, summary(sources))
        places = [self.imported.places[node] for node in nodes[:1] if self.imported.places]
        with tvm_refusals(next(iter(places), f"{summary(sources)} in model {self.imported.name}")):
            found = self._narrow(self.module[global_var], sources, nodes, arguments, result)
            if found is not None:
                return [found]
            return self._emit(self.module[global_var], sources, label, arguments, [tensor_of(t) for t in types])

    def _loop(self, call: relax.Call) -> list[int]:
        """The results of a loop; what its body reads in every iteration alike is a constant in it, if it is one."""
        loop = self.imported.loops[str(call.args[0].global_symbol)]
        arguments = self._read(call.args[1])
        alike = len(loop.state_outputs) + len(loop.scanned_backwards)
        bound: dict[int, np.ndarray | Widened] = {
            number: self.widened[argument] if argument in self.widened else self.constants[argument]
            for number, argument in enumerate(arguments)
            if number >= alike and (argument in self.widened or argument in self.constants)
        }
        arguments = self._plain([a for number, a in enumerate(arguments) if number not in bound])
        types = list(call.ty.fields) if isinstance(call.ty, relax.TupleType) else [call.ty]
        results = [tensor_of(one) for one in types]
        body = _partitioned_body(loop, bound)
        key = f"loop {len(self.bodies)}"
        self.bodies[key] = body
        # A buffer may have another shape, since a reshape does not change it.
        read = [tensor_of(one) for number, one in enumerate(call.args[1].ty.fields) if number not in bound]
        self.work[key] = _Work(opaque_function(key, read, results), ("loop",), (False,) * len(arguments), 1)
        written = [self._buffer(loop.label, shape, dtype, "intermediate") for shape, dtype in results]
        self.calls.append((key, (*arguments, *written), loop.label))
        return written

    def _narrow(
        self,
        function: PrimFunc,
        sources: tuple[str, ...],
        nodes: Sequence[int],
        arguments: list[int],
        result: relax.Var,
    ) -> int | None:
        """The number of a buffer that stands for a result that lies in memory as integers; None for any other."""
        if len(function.params) != len(arguments) + 1 or not self._are_widened(result, None):
            return None
        constants = {n: self.constants[a] for n, a in enumerate(arguments) if a in self.constants}
        if all(a in self.constants or a in self.widened for a in arguments):
            return None
        found = narrow_result(function, constants)
        if found is None or not self._are_widened(result, found.widened):
            return None
        if found.function is None:
            integers = arguments[found.source or 0]
        else:
            whole = found.widened.integers
            kept = _before(sources, found.dropped)
            label = layer_label(self.imported.nodes, nodes, summary(kept))
            read = [arguments[n] for n in found.kept]
            (integers,) = self._emit(found.function, kept, label, read, [(whole.shape, whole.dtype.name)])
        return self._stand_in(integers, found.widened)

    def _stand_in(self, integers: int, tensor: Widened) -> int:
        index = self._buffer("widened", tensor.shape, tensor.dtype, "intermediate")
        self.narrow[index] = integers, tensor
        return index

    def _are_widened(self, result: relax.Var, tensor: Widened | None) -> bool:
        """Whether all readers of a result can widen its integers; `tensor`: what it is, if that is known already."""
        return all(self._is_widened_by(reader, result, tensor) for reader in self.readers.get(result, [None]))

    def _is_widened_by(self, reader: relax.Binding | None, result: relax.Var, tensor: Widened | None) -> bool:
        name = "" if reader is None else callee_of(reader.value)
        if reader is None or name not in {"relax.reshape", "relax.call_tir"}:
            return False
        if name == "relax.reshape":
            moved = None if tensor is None else tensor.reshape(tensor_of(reader.value.ty)[0])
            apart = tensor is not None and moved is not None and moved.parameters > tensor.parameters
            return not apart and self._are_widened(reader.var, moved)
        callee = reader.value.args[0]
        made_of = operators(self.functions.get(callee.name_hint, (callee.name_hint,)))
        # The operands of these may be written into their result; integers could not.
        if made_of in {("concatenate",), (ROW_WRITE,)}:
            return False
        read = list(reader.value.args[1].fields)
        return all(widens_what_it_reads(self.module[callee], n) for n, one in enumerate(read) if one.same_as(result))

    def _emit(
        self,
        function: PrimFunc,
        sources: tuple[str, ...],
        label: str,
        arguments: list[int],
        outputs: Sequence[tuple[tuple[int, ...], str]],
    ) -> list[int]:
        if all(a in self.constants or a in self.widened for a in arguments):
            made = widened(function, [self.widened[a] if a in self.widened else self.constants[a] for a in arguments])
            if made is not None:
                return [self._widened(made)]
            read = [self.constants[a] for a in self._plain(arguments)]
            return [self._constant(r) for r in evaluate(function, read, outputs)]
        function, arguments = self._with_integers(function, arguments)
        mask = tuple(a in self.constants for a in arguments)
        if _are_symmetric([self.constants[a] for a in arguments if a in self.constants]):
            function = function.with_attr(SYMMETRIC_BYTES, 1)
        known = {n: self.constants[a] for n, a in enumerate(arguments) if a in self.constants}
        key = self._workload(function, sources, mask)
        self.work[key].called(
            {
                attribute: {n for n, one in known.items() if _all_shift(one, most)}
                for attribute, most in ((SCALES_SHIFT, _MOST_SHIFT), (SCALES_SHIFT_LITTLE, MOST_LITTLE_SHIFT))
            }
        )
        written = [self._buffer(summary(sources), shape, dtype, "intermediate") for shape, dtype in outputs]
        self.calls.append((key, (*arguments, *written), label))
        return written

    def _widened(self, constant: Widened) -> int:
        """The number of a buffer that stands for a constant, until a kernel reads it."""
        self.widened[index := self._buffer("widened", constant.shape, constant.dtype, "constant")] = constant
        return index

    def _plain(self, arguments: Sequence[int]) -> list[int]:
        """`arguments` with the numbers themselves for the constants that widen integers."""
        return [self._constant(self.widened[a].numbers()) if a in self.widened else a for a in arguments]

    def _with_integers(self, function: PrimFunc, arguments: Sequence[int]) -> tuple[PrimFunc, list[int]]:
        """A kernel that widens the integers that it reads, and its arguments."""
        forms: dict[int, StoredIntegers] = {}
        for number, argument in enumerate(arguments):
            if argument in self.narrow:
                forms[number] = widened_when_read(self.narrow[argument][1])
                continue
            form = stored_integers(self.widened[argument]) if argument in self.widened else None
            if form is not None and not is_written(function):
                forms[number] = form
        read: list[int] = []
        for number, argument in enumerate(arguments):
            if argument in self.narrow:
                read += [self.narrow[argument][0], *map(self._constant, forms[number].arrays[1:])]
            else:
                read += map(self._constant, forms[number].arrays) if number in forms else self._plain([argument])
        return (with_stored(function, forms) if forms else function), read

    def _workload(self, function: PrimFunc, sources: tuple[str, ...], mask: tuple[bool, ...]) -> str:
        plain = plain_function(function, mask)
        key = workload_hash(plain)
        self.work.setdefault(key, _Work(plain, sources, mask))
        return key

    def _buffer(self, name: str, shape: tuple[int, ...], dtype: str, kind: BufferKind) -> int:
        self.buffers.append(Buffer(len(self.buffers), name, shape, dtype, kind))
        return len(self.buffers) - 1

    def _constant(self, array: np.ndarray) -> int:
        array = np.asarray(array, order="C")
        content = (hashlib.sha256(array.tobytes()).digest(), array.dtype.name, array.shape)
        if content not in self.by_content:
            index = self._buffer(f"constant_{len(self.constants)}", array.shape, array.dtype.name, "constant")
            self.constants[index] = array
            self.by_content[content] = index
        return self.by_content[content]

    def _outputs(self, body: relax.Expr) -> None:
        """Gives every model output its own buffer, with a copy if it is an input, a constant or named twice."""
        self.output_ids: list[int] = []
        types = list(body.ty.fields) if isinstance(body.ty, relax.TupleType) else [body.ty]
        self.output_types = [tensor_of(t) for t in types]
        for name, source, (shape, dtype) in zip(
            self.imported.outputs, self._read(body), self.output_types, strict=True
        ):
            index = source
            if self.buffers[source].kind != "intermediate":
                copy = copy_function(shape, dtype)
                function, read = self._with_integers(copy, [source])
                kind = "copy" if function.same_as(copy) else "widen"
                key = self._workload(function, (kind,), tuple(a in self.constants for a in read))
                self.work[key].calls += 1
                index = self._buffer(name, shape, dtype, "output")
                self.calls.append((key, (*read, index), f"{name} ({kind})"))
            # The shape is the model's: a reshape in between does not change the buffer.
            self.buffers[index] = replace(self.buffers[index], name=name, shape=shape, kind="output")
            self.output_ids.append(index)

    def program(self) -> Program:
        outputs = tuple(
            TensorSpec(
                name,
                shape,
                dtype,
                "channels_last" if name in self.imported.channels_last else "model",
                name in self.imported.channels_known,
                name in self.imported.selections,
            )
            for name, (shape, dtype) in zip(self.imported.outputs, self.output_types, strict=True)
        )
        # Buffers in order of their ids, except model outputs: these are last, in the order of the interface.
        renumber: dict[int, int] = {}
        ordered: list[Buffer] = []
        used = {a for _, arguments, _ in self.calls for a in arguments}
        rest = [b for b in self.buffers if b.kind != "output" and (b.id in used or b.kind == "input")]
        for buffer in rest + [self.buffers[i] for i in self.output_ids]:
            renumber[buffer.id] = len(ordered)
            ordered.append(replace(buffer, id=len(ordered)))
        kernels, index = self._kernels()
        return Program(
            name=self.imported.name,
            inputs=tuple(
                replace(s, image=s.name in self.imported.channels_known)
                for number, s in enumerate(self.imported.inputs)
                if number not in self.bound
            ),
            outputs=outputs,
            buffers=tuple(ordered),
            kernels=kernels,
            calls=tuple(
                Call(index[key], tuple(renumber[a] for a in arguments), label) for key, arguments, label in self.calls
            ),
            constants={renumber[i]: a for i, a in self.constants.items() if i in renumber},
            model_sha256=self.imported.sha256,
        )

    def _kernels(self) -> tuple[tuple[Kernel, ...], dict[str, int]]:
        called = {key: work for key, work in self.work.items() if work.calls}
        kernels = [
            replace(kernel_of(w.operators, key, w.with_scales(), w.mask, w.calls), slices=self._slices(key))
            for key, w in called.items()
        ]
        return named(kernels), {key: number for number, key in enumerate(called)}

    def _slices(self, key: str) -> dict[int, int]:
        return self.bodies[key].slices if key in self.bodies else {}
