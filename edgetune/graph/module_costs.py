"""Costs of an imported module, found without the graph passes: multiply-adds, and the least memory of its tensors.

Fusion decides which tensors exist, and it takes seconds. Two rules stand for it: an operator that makes one element of
one element, elementwise or in another order, writes what the operator before it would have written, where nobody else
reads that; and one that makes its operand larger, as a dequantisation does, is computed by those who read it.
So the memory is a bound that a plan may reach, not a plan.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import tvm
from tvm import relax

from edgetune.errors import UnsupportedOperator
from edgetune.graph.imported import Imported
from edgetune.graph.layer_names import place_of
from edgetune.graph.macs import multiply_accumulates
from edgetune.graph.nan_operands import keeping_nan
from edgetune.graph.passes import positive_axes
from edgetune.graph.program import byte_size
from edgetune.graph.rewrite import rewrite
from edgetune.graph.tvm_errors import passed
from edgetune.graph.views.lower_splits import pick_to_slice, splits_to_slices
from edgetune.target.preferences import Io

_INJECTIVE = 2  # TVM's OpPatternKind: 0 is elementwise, 1 broadcasts the smaller operand, 2 moves elements
_OPAQUE = 8


@dataclass(frozen=True)
class ModuleCosts:
    """What a module computes and holds: multiply-adds of a run, and the largest sum of bytes of tensors alive at once.

    Inputs, outputs and constants do not count in `live_bytes`; in `shared_bytes`, inputs and outputs do, as if they lay
    among the others. `calls` is the number of operators that compute something.
    """

    macs: int
    live_bytes: int
    shared_bytes: int
    calls: int


@dataclass
class _Tensor:
    """A tensor: its bytes, the step that writes it, and those that read it.

    It is `kept` where it is not in the arena, and `constant` where it does not depend on an input. An `end` is an input
    or an output, so that nothing smaller takes its place. What is `returned` is alive to the end.
    """

    nbytes: int
    written: int
    kept: bool = False
    end: bool = False
    returned: bool = False
    constant: bool = False
    reads: list[int] = field(default_factory=list)
    merged: _Tensor | None = None

    def root(self) -> _Tensor:
        """The tensor whose memory this one has."""
        return self if self.merged is None else self.merged.root()

    def merge_into(self, other: _Tensor) -> None:
        """Gives this tensor the memory of `other`, which lives as long as both."""
        self.merged = other
        other.reads += self.reads
        other.written = min(other.written, self.written)
        other.kept |= self.kept


def costs_of(imported: Imported) -> ModuleCosts:
    """The costs of `imported`.

    Raises UnsupportedOperator, which names the node, where an operator has no kernel; the graph passes may give it one.
    """
    steps = (
        positive_axes,
        relax.transform.DecomposeOpsForInference(),
        splits_to_slices,
        partial(rewrite, rule=pick_to_slice),
        relax.transform.LegalizeOps(keeping_nan(), skip_ops=["relax.reshape"]),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.DeadCodeElimination(),
    )
    module = imported.module
    for step in steps:
        module = passed(module, step, imported.places)
    walk, sharing = _Walk(module, imported), _Walk(module, imported, io="arena")
    walk.run()
    sharing.counted = walk.counted
    sharing.run()
    return ModuleCosts(walk.macs, walk.peak(), sharing.peak(), walk.step)


class _Walk:
    """Follows `main` of a legalised module, call by call; `io` says where inputs and outputs lie.

    `counted` has the multiply-adds of functions by name.
    """

    def __init__(self, module: tvm.IRModule, imported: Imported, io: Io = "caller") -> None:
        self.module, self.imported = module, imported
        self._keeps_ends = io == "caller"
        self.macs, self.step = 0, 0
        self.tensors: list[_Tensor] = []
        self.values: dict[relax.Var, list[_Tensor]] = {}
        self.chains: list[tuple[_Tensor, _Tensor]] = []
        self.counted: dict[str, int] = {}

    def run(self) -> None:
        """Looks at all bindings, then lets tensors share memory."""
        main = self.module["main"]
        others = len(self.imported.inputs) + len(self.imported.weights)
        for number, param in enumerate(main.params):
            constant = len(self.imported.inputs) <= number < others
            end = number < len(self.imported.inputs)
            kept = self._keeps_ends or not end
            self.values[param] = [_Tensor(byte_size(*_tensor(param.ty)), 0, kept=kept, constant=constant, end=end)]
            self.tensors += self.values[param]
        for binding in (one for block in main.body.blocks for one in block.bindings):
            self.values[binding.var] = self._bound(binding)
        for tensor in self._read(main.body.body):
            tensor.kept |= self._keeps_ends
            tensor.end = tensor.returned = True
        self._share()

    def _read(self, value: relax.Expr) -> list[_Tensor]:
        if isinstance(value, relax.Var):
            return self.values[value]
        if isinstance(value, relax.Tuple):
            return [tensor for part in value.fields for tensor in self._read(part)]
        if isinstance(value, relax.TupleGetItem):
            return [self._read(value.tuple_value)[value.index]]
        return [_Tensor(0, 0, kept=True, constant=True)]

    def _bound(self, binding: relax.Binding) -> list[_Tensor]:
        value = binding.value
        if not isinstance(value, relax.Call):
            return self._read(value)
        name = str(getattr(value.op, "name", value.op))
        if name == "relax.reshape":
            return self._read(value.args[0])
        if name == "relax.call_dps_packed":
            return self._loop(value)
        if name != "relax.call_tir":
            place = place_of(binding.var, self.imported.places) or f"{name} in model {self.imported.name}"
            raise UnsupportedOperator(f"{place} has no kernel; replace the operator in the model")
        return self._called(value)

    def _loop(self, call: relax.Call) -> list[_Tensor]:
        """A loop is one step: all that is alive in an iteration is alive in it."""
        loop = self.imported.loops[str(call.args[0].global_symbol)]
        body = costs_of(loop.body)
        self.step += 1
        self.macs += loop.steps * body.macs
        for part in call.args[1].fields:
            for tensor in self._read(part):
                tensor.reads.append(self.step)
        types = list(call.ty.fields) if isinstance(call.ty, relax.TupleType) else [call.ty]
        made = [_Tensor(byte_size(*_tensor(one)), self.step) for one in types]
        self.tensors += [*made, _Tensor(body.live_bytes, self.step)]
        return made

    def _called(self, call: relax.Call) -> list[_Tensor]:
        types = list(call.ty.fields) if isinstance(call.ty, relax.TupleType) else [call.ty]
        operands = [(tensor, part) for part in call.args[1].fields for tensor in self._read(part)]
        if all(tensor.constant for tensor, _ in operands):
            return [_Tensor(0, 0, kept=True, constant=True) for _ in types]
        self.step += 1
        function = self.module[call.args[0]]
        callee = str(call.args[0].name_hint)
        if callee not in self.counted:
            self.counted[callee] = multiply_accumulates(function)
        self.macs += self.counted[callee]
        for tensor, _ in operands:
            tensor.reads.append(self.step)
        made = [_Tensor(byte_size(*_tensor(one)), self.step) for one in types]
        self.tensors += made
        pattern = int(function.attrs.get("op_pattern", _OPAQUE)) if function.attrs else _OPAQUE
        if len(made) == 1 and pattern <= _INJECTIVE:
            count = _elements(types[0])
            self.chains += [
                (tensor, made[0]) for tensor, part in operands if not tensor.constant and _elements(part.ty) == count
            ][:1]
        return made

    def _share(self) -> None:
        read_once = {id(before) for before, _ in self.chains if len(before.reads) == 1}
        for before, after in self.chains:
            source = before.root()
            if after.nbytes > source.nbytes:
                if not after.kept and not after.end:
                    after.merge_into(source)
            elif id(before) in read_once and not before.kept and not before.end and before.merged is None:
                before.merge_into(after.root())

    def peak(self) -> int:
        """The largest sum of bytes of tensors that are alive during one call."""
        total = [0] * (self.step + 2)
        for tensor in self.tensors:
            if tensor.merged is None and not tensor.kept:
                total[tensor.written] += tensor.nbytes
                last = self.step if tensor.returned else max([tensor.written, *tensor.reads])
                total[last + 1] -= tensor.nbytes
        alive = peak = 0
        for change in total:
            alive += change
            peak = max(peak, alive)
        return peak


def _tensor(ty: relax.TensorType) -> tuple[tuple[int, ...], str]:
    return tuple(int(extent) for extent in ty.shape), str(ty.dtype)


def _elements(ty: relax.Type) -> int:
    count = 1
    for extent in getattr(ty, "shape", None) or ():
        count *= int(extent)
    return count
