"""Parallel region formation: cuts a flat function into loop nests for several threads and serial code for one.

Each region becomes a separate function, lowered and printed like any other; data that one region passes to the next is
a parameter of both. A nest is shared if adjacent loops of it are independent and its work outweighs the cost of
handover.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tvm import tirx

from edgetune.codegen.collapse_loops import Across
from edgetune.codegen.loop_dependence import Accesses, accesses_of, independent_loops
from edgetune.codegen.memory import aliased_buffer, size_of
from edgetune.codegen.register_tiles import shapes_in, with_shapes
from edgetune.codegen.traverse import children
from edgetune.codegen.unrolling import extent_of
from edgetune.tvm_types import For, PrimFunc, Stmt, TvmBuffer, Var

ENOUGH_WASTE = 1 / 16  # idle share of a worker's time; below it, no further loop is fused
FROM_ANOTHER_CORE = 5  # cost of a line from another core relative to a prefetched line; prefetching does not help there
_MANY = 1 << 20  # most iterations of a fused loop


@dataclass(frozen=True)
class Region:
    """A part of a kernel. `loops`: variables of the loops that threads share as one loop; empty for one thread.

    `steps` counts executed stores of one element: one per multiply-add and per moved element. `inner`: other loops run
    around the shared one, so short ranges would read much data repeatedly. `across`: the loop around the shared one
    whose iterations are counted with it, if any (see `collapse_loops.Shared`).
    """

    function: PrimFunc
    loops: tuple[Var, ...]
    iterations: int
    steps: int
    inner: bool = False
    across: Across | None = None


@dataclass(frozen=True)
class Cut:
    """The regions of a function in order, and the buffers that one region writes for another."""

    regions: tuple[Region, ...]
    between: tuple[TvmBuffer, ...]


@dataclass(frozen=True)
class _Run:
    """Loops that threads share as one loop, and the loop around them that is counted with them, if any."""

    loops: tuple[For, ...] = ()
    across: For | None = None

    @property
    def count(self) -> int:
        return prod(map(_extent, self.loops)) * (1 if self.across is None else _extent(self.across))


@dataclass
class _Group:
    nests: list[Stmt]
    run: _Run
    steps: int


def cut(function: PrimFunc, workers: int, least_steps: int) -> Cut | None:
    """`function` (flat, not yet vectorised) as regions for `workers` threads; None if one thread does everything.

    A nest of fewer than `least_steps` steps is not shared: waking the other threads and waiting for them costs more.
    """
    allocated, declared, body = _top(function.body)
    alias = {node.buffer: aliased_buffer(node) for node in declared}
    groups: list[_Group] = []
    for nest in body:
        steps = steps_of(nest)
        if _is_empty(nest):
            continue
        if steps == 0:
            return None  # a statement that this module does not understand
        run = _shared(nest, alias, workers) if steps >= least_steps else _Run()
        if not run.loops and groups and not groups[-1].run.loops:
            groups[-1].nests.append(nest)
            groups[-1].steps += steps
        else:
            groups.append(_Group([nest], run, steps))
    if not any(group.run.loops for group in groups):
        return None
    used = [set().union(*(accesses_of(nest, alias).indices for nest in group.nests)) for group in groups]
    # A buffer used by only one serial group is local to it; in a shared nest each thread would have its own copy.
    own = {
        node.buffer: next(i for i, buffers in enumerate(used) if node.buffer in buffers)
        for node in allocated
        if sum(node.buffer in buffers for buffers in used) == 1
    }
    own = {buffer: i for buffer, i in own.items() if not groups[i].run.loops}
    between = [n.buffer for n in allocated if n.buffer not in own and any(n.buffer in buffers for buffers in used)]
    regions = []
    for i, group in enumerate(groups):
        params = [buffer for buffer in (*function.params, *between) if buffer in used[i]]
        needed = [node for node in declared if alias[node.buffer] in used[i]]
        inside = [node for node in allocated if own.get(node.buffer) == i]
        parts = [*needed, *inside, *group.nests]
        nest = tirx.SeqStmt(parts) if len(parts) > 1 else parts[0]
        made = with_shapes(tirx.PrimFunc(params, nest), shapes_in(function))
        variables = tuple(loop.loop_var for loop in group.run.loops)
        inner = bool(variables) and not variables[0].same_as(_first(group.nests[0]))
        around = group.run.across
        across = None if around is None else Across(around.loop_var, _extent(around))
        regions.append(Region(made, variables, group.run.count, group.steps, inner, across))
    return Cut(tuple(regions), tuple(between))


def steps_of(node: Stmt) -> int:
    """Elements that `node` stores when it runs; of a condition's two branches the longer one counts."""
    if isinstance(node, tirx.For):
        return (extent_of(node) or 1) * steps_of(node.body)
    below = [steps_of(child) for child in children(node)]
    if isinstance(node, tirx.IfThenElse):
        return max(below)
    return sum(below) if below else int(isinstance(node, tirx.BufferStore))


def _is_empty(node: Stmt) -> bool:
    """Whether `node` is an empty statement that passes left."""
    while isinstance(node, tirx.For):
        node = node.body
    return isinstance(node, tirx.Evaluate) and isinstance(node.value, tirx.IntImm)


def _top(body: Stmt) -> tuple[list[Stmt], list[Stmt], list[Stmt]]:
    """Allocations at the top of a function, declarations there, and the statements after them."""
    allocated: list[Stmt] = []
    declared: list[Stmt] = []
    rest: list[Stmt] = []
    for node in list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]:
        if isinstance(node, tirx.AllocBuffer):
            allocated.append(node)
        elif isinstance(node, tirx.DeclBuffer):
            declared.append(node)
        else:
            rest.append(node)
    return allocated, declared, rest


def _extent(loop: For) -> int:
    return extent_of(loop) or 1


def _first(nest: Stmt) -> Var:
    """The variable of the outermost loop of a nest that runs more than once."""
    while _extent(nest) == 1:
        nest = nest.body
    return nest.loop_var


def _shared(nest: Stmt, alias: dict[TvmBuffer, TvmBuffer], workers: int) -> _Run:
    """The loops of `nest` to share as one: adjacent, and as few as keep `workers` busy.

    Of several such runs, the one that moves the fewest bytes between caches wins. Loops around it run completely in
    every range, except the next outer one, which is counted with the run if the run alone has no iteration count that
    keeps all workers busy.
    """
    loops = []
    node = nest
    while isinstance(node, tirx.For) and int(node.kind) in (int(tirx.ForKind.SERIAL), int(tirx.ForKind.PARALLEL)):
        loops.append(node)
        node = node.body
    found = accesses_of(nest, alias)
    independent = [loop for loop in independent_loops(found, loops) if _extent(loop) > 1]
    busy: list[_Run] = []
    for first in range(len(independent)):
        runs = [_Run(tuple(independent[first:last])) for last in range(first + 1, len(independent) + 1)]
        across = [_Run(run.loops, independent[first - 1]) for run in runs if first and run.count >= workers]
        busy += [run for run in (*runs, *across) if _waste(run, workers) <= ENOUGH_WASTE][:1]
    if busy:
        top = found.outermost(independent)
        return min(busy, key=lambda run: _moved(found, run.loops[0].loop_var, top.loop_var, workers))
    return min(
        (_Run(tuple(independent[:depth])) for depth in range(len(independent) + 1)),
        key=lambda run: _waste(run, workers),
    )


def _waste(run: _Run, workers: int) -> float:
    """Idle share of `workers` that share `run`; 1 (as if one did nothing) for no loops or far too many iterations."""
    return idle(run.count, workers) if run.loops and 1 < run.count <= _MANY else 1.0


def _moved(found: Accesses, v: Var, top: Var, workers: int) -> float:
    """Bytes that one worker's core receives if the loop over `v` is shared; bytes from other cores have more weight.

    The weight is their cost. Layers agree most often on the outermost axis of a tensor, that of the loop over `top`. If
    another axis is shared, all data except one part in `workers` lies in the caches of other cores; the same holds for
    what the next layer reads.
    """
    total = 0.0
    for buffer in found.outside():
        size = size_of(buffer) / (workers if found.uses(buffer, v) else 1)
        elsewhere = not v.same_as(top) and found.uses(buffer, top)
        total += size * (1 + (FROM_ANOTHER_CORE - 1) * (1 - 1 / workers) if elsewhere else 1)
    return total


def idle(count: int, workers: int) -> float:
    """Share of the workers' time that is idle when they share `count` equal iterations."""
    return 1 - count / (workers * -(-count // workers))
