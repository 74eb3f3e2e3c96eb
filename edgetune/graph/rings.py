"""Ring buffers: a state that holds the last rows along one axis, such as time, of which each run writes the new ones.

A model that keeps rows has `joined = concat(state, rows)`, reads that, and returns `slice(joined)`, its last rows, as
the next state. So each run moves all rows. Here the state becomes a ring buffer of the rows of `joined`: a run writes
its own rows over those that nothing reads any more, and reads all rows where they lie. The axis is outermost in memory,
so a row lies together, whatever place the axis has in the model.

The pass works before fusion, on a Relax module: two functions of their own take the place of concatenation and slice.
Both are right as they stand. `row_writes.py` has the rows written in place, and `ring_reads.py` has kernels read the
ring themselves, which are ways to lay out a program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import tvm
from tvm import relax, te, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

from edgetune.graph.imported import Imported
from edgetune.graph.program import Ring, TensorSpec
from edgetune.graph.rewrite import DefUse, tensor_of
from edgetune.graph.te_call import call_fusable
from edgetune.graph.tvm_types import Expr
from edgetune.graph.views.lower_splits import Range, ranges_of, splits_to_slices

ROW_WRITE, RING_READ = "row_write", "ring_read"
"""Names of the functions that write rows into a memory, and read those of a ring in their order."""

_POSITION = "position of {} steps"


@dataclass(frozen=True)
class _Found:
    """A state that keeps rows: its input by number, and the calls that read and make it."""

    number: int
    ring: Ring
    shape: tuple[int, ...]
    joined: relax.Call
    last: relax.Call

    @property
    def position(self) -> str:
        """The name of the input that has the position."""
        return _POSITION.format(self.ring.steps)


def with_rings(
    imported: Imported, pairs: Mapping[str, str]
) -> tuple[Imported, dict[str, tuple[Ring, tuple[int, ...]]]]:
    """`imported` whose states are ring buffers where they keep rows, and these as in `Program.rings`.

    `pairs` are the states: an input of the model, and the output that is its next value. Input and output of a ring are
    its memory. Positions are new inputs, behind those of the model.
    """
    if not pairs:
        return imported, {}
    module = splits_to_slices(imported.module)
    main = module["main"]
    chains = DefUse(main)
    results = _results(main)
    found = []
    for number, spec in enumerate(imported.inputs):
        if spec.name in pairs:
            result = results[imported.outputs.index(pairs[spec.name])]
            one = _found(number, main.params[number], result, chains)
            if one is not None:
                found.append(one)
    if not found:
        return imported, {}
    positions = {one.position: relax.Var(f"position_{one.ring.steps}", _scalar()) for one in found}
    rewriting = _Rewriting(module, found, positions, len(imported.inputs))
    function = rewriting.visit_expr(main)
    updated = rewriting.builder_.get()
    updated["main"] = relax.analysis.remove_all_unused(function)
    rings = {imported.inputs[one.number].name: (replace(one.ring, position=one.position), one.shape) for one in found}
    memory = tuple(
        replace(spec, shape=rings[spec.name][0].shape(rings[spec.name][1])) if spec.name in rings else spec
        for spec in imported.inputs
    )
    inputs = (*memory, *(TensorSpec(name, (), "int32") for name in positions))
    return replace(imported, module=relax.transform.Normalize()(updated), inputs=inputs), rings


def _results(main: relax.Function) -> list[relax.Expr]:
    body = main.body.body
    values = relax.analysis.get_var2val(main)
    while isinstance(body, relax.Var) and body in values:
        body = values[body]
    return list(body.fields) if isinstance(body, relax.Tuple) else [main.body.body]


def _found(number: int, state: relax.Var, result: relax.Expr, chains: DefUse) -> _Found | None:
    """The ring that a state is, if its next value is the end of what it is joined to, and nothing else reads either."""
    last = chains.call(result, "relax.strided_slice")
    joined = None if last is None else chains.call(last.args[0], "relax.concat")
    if last is None or joined is None or not isinstance(joined.args[0], relax.Tuple):
        return None
    if not chains.used_once(state) or not chains.used_once(result):
        return None
    first, *rest = joined.args[0].fields
    shape, _ = tensor_of(state.ty)
    axis = int(joined.attrs.axis) % len(shape)
    whole, kept = int(joined.ty.shape[axis]), shape[axis]
    if not rest or not first.same_as(state) or ranges_of(last) != [Range(axis, whole - kept, whole)]:
        return None
    count = whole - kept
    rows = -(-whole // count) * count
    # More memory for good, to move fewer rows: worth it as long as it is less than what would be moved.
    if not count or rows - kept > kept:
        return None
    return _Found(number, Ring(axis, rows, count), shape, joined, last)


def _scalar() -> relax.TensorType:
    return relax.TensorType((), "int32")


@mutator
class _Rewriting(PyExprMutator):
    def __init__(
        self, module: tvm.IRModule, found: list[_Found], positions: Mapping[str, relax.Var], inputs: int
    ) -> None:
        super().__init__(module)
        self.found, self.positions, self.inputs = found, positions, inputs
        self.memory: dict[int, relax.Var] = {}
        self.written: dict[int, relax.Expr] = {}

    def visit_function_(self, function: relax.Function) -> relax.Function:
        params = list(function.params)
        for one in self.found:
            old = params[one.number]
            kind = relax.TensorType(one.ring.shape(one.shape), str(old.ty.dtype))
            params[one.number] = self.memory[one.number] = relax.Var(str(old), kind)
        params[self.inputs : self.inputs] = self.positions.values()
        body = self.visit_with_new_scope(function.body)
        return relax.Function(params, body, None, function.is_pure, function.attrs)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        for one in self.found:
            if call.same_as(one.joined):
                return self._joined(one, call)
            if call.same_as(one.last):
                return self.written[one.number]
        return super().visit_call_(call)

    def _joined(self, one: _Found, call: relax.Call) -> relax.Expr:
        """Writes the new rows of a run, and reads all of them as the model has them."""
        axis, rank, builder = one.ring.axis, len(one.shape), self.builder_
        new = [self.visit_expr(field) for field in call.args[0].fields[1:]]
        rows = new[0] if len(new) == 1 else builder.emit(relax.op.concat(new, axis))
        outermost = [axis, *(other for other in range(rank) if other != axis)]
        rows = builder.emit(relax.op.permute_dims(rows, outermost)) if axis else rows
        position = self.positions[one.position]
        written = call_fusable(builder, row_write, self.memory[one.number], rows, position, alone=True)
        self.written[one.number] = written
        count = int(call.ty.shape[axis])
        read = call_fusable(builder, ring_read, written, position, one.ring.count, count, alone=True)
        return relax.op.permute_dims(read, [outermost.index(other) for other in range(rank)]) if axis else read


def row_write(memory: te.Tensor, rows: te.Tensor, number: te.Tensor) -> te.Tensor:
    """`memory` with other `rows` along its first axis: those that have the `number` (int32) among groups of so many."""
    count = rows.shape[0]
    first = _group(number, int(memory.shape[0]) // int(count), memory) * count

    def element(row: tirx.Var, *rest: tirx.Var) -> Expr:
        inside = tirx.all(row >= first, row < first + count)
        return tirx.if_then_else(inside, rows(tirx.min(tirx.max(row - first, 0), count - 1), *rest), memory(row, *rest))

    return te.compute(memory.shape, element, name=ROW_WRITE)


def ring_read(memory: te.Tensor, position: te.Tensor, written: int, count: int) -> te.Tensor:
    """The last `count` rows of a ring in their order, after the run at `position` has written so many."""
    rows = int(memory.shape[0])
    behind = _group(position, rows // written, memory) * written + (written + rows - count)

    def element(row: tirx.Var, *rest: tirx.Var) -> Expr:
        place = behind + row
        return memory(place - tirx.Select(place >= rows, tirx.const(rows, place.ty), tirx.const(0, place.ty)), *rest)

    return te.compute((count, *memory.shape[1:]), element, name=RING_READ)


def _group(number: te.Tensor, groups: int, memory: te.Tensor) -> Expr:
    """A number that is none of the groups is taken for the nearest one: no place outside is touched."""
    index = str(memory.shape[0].ty.dtype)
    inside = tirx.max(tirx.min(number(), tirx.const(groups - 1, "int32")), tirx.const(0, "int32"))
    return tirx.Cast(index, inside) if index != "int32" else inside
