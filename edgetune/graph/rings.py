"""Ring buffers: a state that holds the last rows along one axis, such as time, of which each run writes the new ones.

A model that keeps rows has `joined = concat(state, rows)`, reads that, and returns `slice(joined)`, its last rows, as
the next state. So each run moves all rows. Here the state becomes a ring buffer of the rows of `joined`: a run writes
its own rows over those that nothing reads any more, and reads all rows where they lie. The axis is outermost in memory,
so a row lies together, whatever place the axis has in the model.

The pass works before fusion, on a Relax module: two functions (`row_functions.py`) take the place of concatenation and
slice. Caches, of which a run writes rows where an input says, are written by the same function (`cache_writes.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from edgetune.graph.cache_writes import CacheWrite, Numbers, cache_write
from edgetune.graph.fold_constant import permutation
from edgetune.graph.imported import Imported
from edgetune.graph.program import Ring, TensorSpec
from edgetune.graph.rewrite import DefUse, attributes, rewrite, tensor_of, with_attributes
from edgetune.graph.row_functions import RING_READ, ring_read, row_write
from edgetune.graph.te_call import call_fusable
from edgetune.graph.views.lower_splits import Range, ranges_of, splits_to_slices

_POSITION = "position of {} steps"
_REDUCTIONS = frozenset(f"relax.{name}" for name in ("mean", "sum", "max", "min", "prod"))


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
    imported: Imported, pairs: Mapping[str, str], apart: Collection[str] = ()
) -> tuple[Imported, dict[str, tuple[Ring, tuple[int, ...]]]]:
    """`imported` whose states are ring buffers where they keep rows, and these as in `Program.rings`.

    `pairs` are the states: an input of the model, and the output that is its next value; those `apart` become no rings.
    Input and output of a ring are its memory. Positions are new inputs, behind those of the model.
    """
    if not pairs:
        return imported, {}
    module = splits_to_slices(imported.module)
    main = module["main"]
    chains = DefUse(main)
    results = _results(main)
    found: list[_Found] = []
    caches: list[CacheWrite] = []
    for number, spec in enumerate(imported.inputs):
        if spec.name in pairs:
            state, result = main.params[number], results[imported.outputs.index(pairs[spec.name])]
            ring, cache = _found(number, state, result, chains), cache_write(state, result, chains, module)
            found += [] if ring is None or spec.name in apart else [ring]
            caches += [] if cache is None else [cache]
    if not found and not caches:
        return imported, {}
    positions = {one.position: relax.Var(f"position_{one.ring.steps}", _scalar()) for one in found}
    rewriting = _Rewriting(module, found, caches, positions, len(imported.inputs))
    function = rewriting.visit_expr(main)
    updated = rewriting.builder_.get()
    updated["main"] = relax.analysis.remove_all_unused(function)
    rings = {imported.inputs[one.number].name: (replace(one.ring, position=one.position), one.shape) for one in found}
    memory = tuple(
        replace(spec, shape=rings[spec.name][0].shape(rings[spec.name][1])) if spec.name in rings else spec
        for spec in imported.inputs
    )
    inputs = (*memory, *(TensorSpec(name, (), "int32") for name in positions))
    module = rewrite(relax.transform.Normalize()(updated), _reduced_where_it_lies)
    return replace(imported, module=module, inputs=inputs), rings


def _reduced_where_it_lies(call: relax.Call, chains: DefUse, _: relax.BlockBuilder) -> relax.Expr | None:
    """The mean, sum or extreme of rows in the order of the model as that of the rows of a ring, in its own order."""
    moved = chains.call(call.args[0], "relax.permute_dims") if call.op.name in _REDUCTIONS else None
    rows = None if moved is None else chains.call(moved.args[0], "relax.call_tir")
    if moved is None or rows is None or rows.args[0].name_hint.rstrip("0123456789") != RING_READ:
        return None
    order, attrs = permutation(moved), attributes(call)
    axes = range(len(order)) if attrs["axis"] is None else [int(axis) % len(order) for axis in attrs["axis"]]
    reduced = with_attributes(call, {"axis": [order[axis] for axis in axes]}, [moved.args[0]])
    left = order if attrs["keepdims"] else [one for axis, one in enumerate(order) if axis not in axes]
    return relax.op.permute_dims(reduced, [sorted(left).index(one) for one in left]) if len(left) > 1 else reduced


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
    if not rest or not first.same_as(state) or _cut(last) != [Range(axis, whole - kept, whole)]:
        return None
    count = whole - kept
    rows = -(-whole // count) * count
    # More memory for good, to move fewer rows: worth it as long as it is less than what would be moved.
    if not count or rows - kept > kept:
        return None
    return _Found(number, Ring(axis, rows, count), shape, joined, last)


def _cut(call: relax.Call) -> list[Range]:
    """The ranges of a slice of the axes that it does not have whole; none where it has steps."""
    shape, _ = tensor_of(call.args[0].ty)
    return [one for one in ranges_of(call) or [] if (one.begin, one.end) != (0, shape[one.axis])]


def _scalar() -> relax.TensorType:
    return relax.TensorType((), "int32")


@mutator
class _Rewriting(PyExprMutator):
    def __init__(
        self,
        module: tvm.IRModule,
        found: Sequence[_Found],
        caches: Sequence[CacheWrite],
        positions: Mapping[str, relax.Var],
        inputs: int,
    ) -> None:
        super().__init__(module)
        self.found, self.caches, self.positions, self.inputs = found, caches, positions, inputs
        self.memory: dict[int, relax.Var] = {}
        self.written: dict[int, relax.Expr] = {}
        self.numbers: Numbers = {}

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
        cache = next((one for one in self.caches if call.same_as(one.call)), None)
        if cache is None:
            return super().visit_call_(call)
        return cache.rewritten(self.builder_, self.visit_expr, self.numbers)

    def _joined(self, one: _Found, call: relax.Call) -> relax.Expr:
        """Writes the new rows of a run, and reads all of them as the model has them."""
        axis, rank, builder = one.ring.axis, len(one.shape), self.builder_
        new = [self.visit_expr(field) for field in call.args[0].fields[1:]]
        rows = new[0] if len(new) == 1 else builder.emit(relax.op.concat(new, axis))
        outermost = [axis, *(other for other in range(rank) if other != axis)]
        rows = builder.emit(relax.op.permute_dims(rows, outermost)) if axis else rows
        memory, position = self.memory[one.number], self.positions[one.position]
        written = call_fusable(builder, row_write, memory, rows, position, 0, one.ring.count, alone=True)
        self.written[one.number] = written
        count = int(call.ty.shape[axis])
        read = call_fusable(builder, ring_read, written, position, one.ring.count, count, alone=True)
        return relax.op.permute_dims(read, [outermost.index(other) for other in range(rank)]) if axis else read
