"""Estimated instructions of printed lines: what compilers make of them, one operation at a time.

Compilers compute equal operations of a block once, take what does not change in a loop out of it, and keep a place of
memory in a register that a loop adds to. They write out short loops, and make vectors of the elements of others. Where
an instruction may have an operand in memory, a value that is used once needs no load of its own. The estimate does as
they do. It chooses between forms of a kernel; nothing that is measured depends on it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from edgetune.codegen.instruction_counts import instructions_of
from edgetune.codegen.lines import Line, LineKind
from edgetune.codegen.work import (
    ARITHMETIC,
    DIVIDE,
    LOAD,
    MULTIPLY,
    MULTIPLY_ADD,
    STORE,
    VECTOR_LOAD,
    VECTOR_STORE,
    Operation,
)
from edgetune.target.target import Target

_OF_ITERATION = 2.0
"""Instructions of an iteration beside its body: compilers repeat the body of short loops."""

_MOST_WRITTEN_OUT, _MOST_OPERATIONS = 16, 200
"""Iterations, and operations of all of them, of a loop that GCC writes out (max-completely-peel-times, -insns)."""

_MOST_IN_VECTORS = 128
"""Operations of a loop over elements above which a compiler finds too few registers for vectors of all."""

_MOST_INTERLEAVED = 4
"""Results of an iteration that compilers store as vectors which take turns."""

_OF_A_SPILL = 2.0
"""Instructions of a sum without a register in an iteration: it is loaded and stored."""

_BESIDE_SUMS = 2
"""Registers that sums leave to their operands: one is loaded, and one has an element in all lanes."""

_OF_A_STEP = 3
"""Registers that the operands of a step need, beside those that are kept over a loop."""

_Key = tuple[str, tuple[int, ...]]
_LOADS, _STORES = (LOAD, VECTOR_LOAD), (STORE, VECTOR_STORE)
_FOLDING = (ARITHMETIC, MULTIPLY, MULTIPLY_ADD, DIVIDE)
_OF_ELEMENTS = (LOAD, STORE, *_FOLDING)


def estimated_instructions(lines: Sequence[Line], target: Target) -> float:
    """Instructions of a run of the `lines` of a function."""
    walk = _Walk(lines, target)
    folds = target.instruction_set.folds_loads
    total = walk.iterations * _OF_ITERATION + walk.spilled * _OF_A_SPILL
    for one in walk.computed:
        if not (folds and one.folded and one.uses == 1):
            total += one.times * instructions_of(one.operation, target)
    return total


@dataclass
class _Computed:
    """An operation that runs so many `times`, and has that many `uses`. It is `folded` into one that reads memory."""

    operation: Operation
    times: float
    uses: int = 1
    folded: bool = False


@dataclass
class _Block:
    """The lines of a loop, of a branch or of the function, which run so many `times`.

    `trips` are the iterations of a loop, else 0. `changes` are the variables and the tensors that the lines write,
    `own` those that an iteration decides. `stored` are the variables that places of each tensor depend on. `known` is
    what is computed in it. A compiler writes the iterations out where it is `short`. `kept` are the registers that hold
    what was loaded before it.
    """

    times: float
    trips: float = 0.0
    changes: set[str] = field(default_factory=set)
    own: set[str] = field(default_factory=set)
    stored: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    known: dict[_Key, _Computed] = field(default_factory=dict)
    short: bool = False
    kept: float = 0.0

    def note(self, line: Line) -> None:
        """Notes what a line in it writes."""
        self.changes |= line.writes
        if line.constant:
            self.own.add(line.constant)
        for name in line.writes if line.in_memory else ():
            self.stored[name] |= line.target.variables if line.target is not None else line.writes

    def keeps(self, one: Operation, depends: Callable[[frozenset[str]], frozenset[str]]) -> bool:
        """Whether an operation gives the same in all iterations; `depends` says on what variables depend.

        For a place of memory, no other place of its tensor may be written but those that stay as well.
        """
        if not self.trips:
            return False
        tensors = one.reads & self.stored.keys() if one.kind in (*_LOADS, *_STORES) else frozenset()
        places = frozenset().union(one.reads, *(self.stored[name] for name in tensors))
        return not (self.changes - tensors) & depends(places)


class _Walk:
    """A walk over lines in their order, which knows what is computed already."""

    def __init__(self, lines: Sequence[Line], target: Target) -> None:
        self.lines = lines
        self.lanes = max(1, target.vector_bits // 32)
        self.registers = target.vector_registers
        self.strided = target.instruction_set.strided_loops
        broadcasts = not 0 < target.vector_bits < target.instruction_set.broadcast_operand_bits
        self.foldable = _LOADS if broadcasts else (VECTOR_LOAD,)
        self.versions: Counter[str] = Counter()
        self.computed: list[_Computed] = []
        self.iterations = self.spilled = 0.0
        self.blocks: list[_Block] = []
        self.made_of = {line.constant: line.mentions - {line.constant} for line in lines if line.constant}
        self._block(range(len(lines)), _Block(1.0))

    def _block(self, numbers: range, block: _Block) -> None:
        for number in numbers:
            block.note(self.lines[number])
        self.blocks.append(block)
        for head, inner in self._statements(numbers):
            self._compute(head)
            self.versions.update(head.writes)
            if inner is not None:
                self._block(*inner)
        self.versions.update(block.changes)
        self.blocks.pop()

    def _statements(self, numbers: range) -> Iterator[tuple[Line, tuple[range, _Block] | None]]:
        """The lines of a block, without those of the blocks in it, which come with the lines that open them."""
        number, share = numbers.start, 1.0
        while number < numbers.stop:
            line, times = self.lines[number], self.blocks[-1].times
            number += 1
            if line.kind not in (LineKind.OPENS, LineKind.OTHERWISE):
                yield line, None
                continue
            inside = range(number, self._end(number))
            share = 1 - share if line.kind is LineKind.OTHERWISE else line.share
            yield line, (inside, self._loop(line, inside) if line.trips is not None else _Block(times * share))
            self.iterations += times if line.trips is None else 0
            number = inside.stop

    def _loop(self, head: Line, inside: range) -> _Block:
        trips = head.trips or 0.0
        operations = [one for number in inside for one in self.lines[number].code.operations]
        innermost = all(self.lines[number].trips is None for number in inside)
        short = innermost and trips <= _MOST_WRITTEN_OUT and trips * len(operations) <= _MOST_OPERATIONS
        if innermost and trips >= 2 * self.lanes and self._fills_vectors(head, inside, operations):
            trips *= self.strided / self.lanes
        block = _Block(self.blocks[-1].times * trips, trips=max(trips, 1.0), short=short)
        block.note(head)
        block.own |= head.writes
        self.iterations += 0 if short else block.times
        if innermost:
            sums = {self.lines[number].added_to for number in inside} - {""}
            self.spilled += block.times * max(0, len(sums) - (self.registers - _BESIDE_SUMS))
        return block

    def _fills_vectors(self, head: Line, inside: range, operations: Sequence[Operation]) -> bool:
        """Whether a compiler makes vectors of a loop over single elements: no iteration waits for the one before."""
        lines = [self.lines[number] for number in inside]
        if any(line.kind not in (LineKind.STATEMENT, LineKind.CLOSES) for line in lines):
            return False
        if not 0 < len(operations) <= _MOST_IN_VECTORS or any(one.kind not in _OF_ELEMENTS for one in operations):
            return False
        own = head.writes | {line.constant for line in lines if line.constant}
        written = frozenset().union(*(line.writes for line in lines if not line.in_memory))
        sums: set[str] = set()
        for line in lines:
            others = line.writes if line.target is not None else frozenset()
            if line.mentions & (written | sums) - own - others or line.mentions & sums - others:
                return False  # of another iteration
            sums |= line.mentions & others - own
            own |= line.writes
        stores = [one for one in operations if one.kind == STORE]
        read = frozenset().union(*(one.reads for one in operations if one.kind == LOAD))
        stored = {line.target.variable for line in lines if line.target is not None and not line.target.whole}
        return not stored & read and 0 < len(stores) <= _MOST_INTERLEAVED and all(one.reads & own for one in stores)

    def _end(self, first: int) -> int:
        """The line that ends the block whose lines begin there."""
        depth = self.lines[first - 1].depth
        return next(
            number
            for number in range(first, len(self.lines))
            if self.lines[number].depth == depth and self.lines[number].kind in (LineKind.CLOSES, LineKind.OTHERWISE)
        )

    def _compute(self, line: Line) -> None:
        loads: list[_Computed] = []
        for one in line.code.operations:
            made = self._add(one)
            if one.kind in self.foldable:
                loads.append(made)
            elif one.kind in _FOLDING and loads:
                loads[-1].folded = True
                loads.clear()

    def _beyond(self, known: Collection[str], reads: frozenset[str]) -> frozenset[str]:
        """What a value that `reads` variables depends on beside those that are `known`."""
        found: set[str] = set()
        waiting = list(reads)
        while waiting:
            name = waiting.pop()
            if name not in known:
                found.add(name)
            else:
                waiting += self.made_of.get(name, ())
        return frozenset(found)

    def _add(self, one: Operation) -> _Computed:
        outer, times, inner = len(self.blocks) - 1, self.blocks[-1].times, 1.0
        known: set[str] = set()
        for number in range(len(self.blocks) - 1, 0, -1):
            block = self.blocks[number]
            if block.keeps(one, partial(self._beyond, known)):
                outer, times = number - 1, self.blocks[number - 1].times * inner
            elif block.short and inner * block.trips < self.registers:
                known |= block.own
                inner *= block.trips
            else:
                break
        key = f"{one.kind} {one.text}", tuple(self.versions[name] for name in sorted(one.reads))
        computed = next((block.known[key] for block in self.blocks[: outer + 1] if key in block.known), None)
        if computed is not None:
            computed.uses += 1
            return computed
        if outer < len(self.blocks) - 1 and one.kind in _LOADS:
            loop = self.blocks[outer + 1]
            loop.kept += inner
            if loop.kept > self.registers - _OF_A_STEP:  # it is loaded again where it is used
                outer, times = len(self.blocks) - 1, self.blocks[-1].times
        made = _Computed(one, times)
        self.computed.append(made)
        self.blocks[outer].known[key] = made
        return made
