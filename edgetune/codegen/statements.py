"""Statement printing: C for TIR loops, stores, allocations and conditions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import tvm
import tvm_ffi
from tvm import ir, tirx

from edgetune.affine.expressions import is_branch, is_one, loads_in, variables_in
from edgetune.codegen.branch_shares import ASSUMED
from edgetune.codegen.collapse_loops import Shared
from edgetune.codegen.column_loads import groups_in
from edgetune.codegen.context import BufferStorage, Context
from edgetune.codegen.dot_products import added_dot_products
from edgetune.codegen.dtypes import element_and_lanes, storage_type
from edgetune.codegen.horizontal_reduction import printed_join, printed_joins
from edgetune.codegen.interleaved_rows import printed_turns
from edgetune.codegen.intrinsics import operator
from edgetune.codegen.lane_pairs import added_lane_pairs
from edgetune.codegen.lane_products import added_lane_products
from edgetune.codegen.lane_windows import printed_window
from edgetune.codegen.lines import (
    CLOSING,
    ELSE,
    Line,
    LineKind,
    addition,
    array,
    assignment,
    branch,
    call,
    loop,
    other,
    variable,
)
from edgetune.codegen.literals import digits
from edgetune.codegen.memory import Survey, pieces
from edgetune.codegen.names import plain_name
from edgetune.codegen.neighbours import printed_neighbours
from edgetune.codegen.register_tiles import tile_places
from edgetune.codegen.strided_loads import loads_together
from edgetune.codegen.text import ATOM, Code, Lvalue, Text, code, listed
from edgetune.codegen.transposition import printed_transposition
from edgetune.codegen.vector_calls import calls_functions, has_vector_form
from edgetune.codegen.vectors import VectorPrinter
from edgetune.codegen.widened_words import widened_word
from edgetune.errors import KernelFailed
from edgetune.tvm_types import Expr, Stmt, TvmBuffer, Var

_SILENT = frozenset(("assume", "likely", "undef", "type_annotation", "ignore_loop_partition"))


ACCUMULATOR = "acc"
_IN_A_LINE = 4  # declarations of registers, or whole rows of a tile


@dataclass
class Layout:
    """Storage of allocated buffers: register pieces, or offsets in the scratch; all others are arrays on the stack.

    `shapes` has the shapes of buffers before they were flat, by name.
    """

    registers: dict[TvmBuffer, dict[int, int]] = field(default_factory=dict)
    scratch: dict[TvmBuffer, int] = field(default_factory=dict)
    shapes: dict[str, list[int]] = field(default_factory=dict)


class StatementPrinter(VectorPrinter):
    """Prints statements into its context's lines.

    A `shared` loop runs from the C variable `begin` to `end` instead of over its whole range. If another loop is
    counted with it, it runs over its part of a block.
    """

    def __init__(self, context: Context, survey: Survey, layout: Layout, shared: Shared | None = None) -> None:
        super().__init__(context)
        self.shared = shared
        if shared is not None:
            context.variables |= {
                one: Text(Code(name, (name,)), index=True)
                for one, name in ((shared.begin, "begin"), (shared.end, "end"))
            }
        self.survey = survey
        self.layout = layout
        self._statement_by_type: dict[type, Callable[[Stmt], None]] = {
            tirx.SeqStmt: self._sequence,
            tirx.For: self._for,
            tirx.While: self._while,
            tirx.IfThenElse: self._if,
            tirx.BufferStore: self._store,
            tirx.Bind: lambda s: self.bind(s.var, s.value),
            tirx.AllocBuffer: lambda s: self._allocate(s.buffer),
            tirx.DeclBuffer: self._declare,
            tirx.AttrStmt: lambda s: self.statement(s.body),
            tirx.Evaluate: self._evaluate,
            tirx.AssertStmt: lambda _: None,
            tirx.Break: lambda _: self.context.emit(other(Code("break;"))),
            tirx.Continue: lambda _: self.context.emit(other(Code("continue;"))),
        }

    def statement(self, s: Stmt) -> None:
        """Emit one statement; KernelFailed names what cannot be printed."""
        printer = self._statement_by_type.get(type(s))
        if printer is None:
            raise KernelFailed(f"the C printer does not know the statement {type(s).__name__}")
        printer(s)

    def _sequence(self, s: Stmt) -> None:
        left = list(s.seq)
        while left:
            joined = printed_joins(self, left) or printed_turns(self, left) or printed_neighbours(self, left)
            if not joined:
                self.statement(left[0])
            left = left[max(1, joined) :]

    def block(self, s: Stmt) -> None:
        """Emit a statement inside braces that the caller prints."""
        with self.context.indented():
            self.statement(s)

    def _for(self, s: Stmt) -> None:
        if printed_transposition(self, s):
            return
        of, _ = element_and_lanes(s.loop_var.ty)
        low, extent = self.scalar(s.min), self.scalar(s.extent)
        if self.shared is not None and s.loop_var.same_as(self.shared.variable):
            low, high = self.scalar(self.shared.first), self.scalar(self.shared.past_last)
        elif low.zero:
            high = extent
        elif isinstance(s.min, tirx.IntImm) and isinstance(s.extent, tirx.IntImm):
            high = digits(int(s.min.value) + int(s.extent.value))
        else:
            high = Text(code("{} + {}", low.at(ATOM), extent.at(ATOM)))
        name = self.context.names.loop(self.context.stems.get(s.loop_var, s.loop_var.name))
        self.context.variables[s.loop_var] = Text(name, index=True)
        self.context.analyzer.bind(s.loop_var, tvm.ir.Range.from_min_extent(s.min, s.extent), True)
        step = code("{}++", name) if s.step is None else code("{} += {}", name, self.scalar(s.step))
        counts = high.constant if low.zero and s.step is None else None
        head = code("for ({0} {1} = {2}; {1} < {3}; {4}) {{", of.value, name, low, high, step)
        self.context.emit(loop(head, name, self.context.iterations.enter(s, self.context.analyzer), counts))
        self.block(s.body)
        self.context.emit(CLOSING)
        self.context.names.release(name)

    def _while(self, s: Stmt) -> None:
        self.context.emit(loop(Code("for (;;) {"), Code(""), ASSUMED))
        with self.context.indented():
            self.context.emit(other(code("if (!({})) break;", self.scalar(s.condition))))
            self.statement(s.body)
        self.context.emit(CLOSING)

    def _if(self, s: Stmt) -> None:
        share = self.context.iterations.share(s.condition)
        self.context.emit(branch(code("if ({}) {{", self.scalar(s.condition)), share))
        self.block(s.then_case)
        if s.else_case is not None:
            self.context.emit(ELSE)
            self.block(s.else_case)
        self.context.emit(CLOSING)

    def _evaluate(self, s: Stmt) -> None:
        if not isinstance(s.value, ir.Call) or operator(s.value) in _SILENT:
            return
        if operator(s.value) == "prefetch":
            load, write, locality, ahead = s.value.args  # bytes from the named element
            where = self.element_text(load.source, load.indices)
            if int(ahead.value):
                self.context.emit(call(self.context.need("prefetch:line"), where.address, int(ahead.value)))
            else:
                kind = int(write.value), int(locality.value)
                self.context.emit(other(code("__builtin_prefetch({}, {}, {});", where.address, *kind)))
            return
        self.context.emit(other(code("(void){};", self.scalar(s.value).at(ATOM))))

    # Memory

    def _allocate(self, buffer: TvmBuffer) -> None:
        of, lanes = element_and_lanes(buffer.ty.dtype)
        base = self.survey.base(buffer)
        wanted = self.layout.registers.get(base)
        stem = plain_name(str(buffer.name))
        if wanted is not None:
            stem = ACCUMULATOR if self._sums_alone(base) else stem
            tile = tile_places(wanted, self.layout.shapes.get(str(base.name), [])) if len(wanted) > 1 else {}
            place = BufferStorage(Code(stem), of, lanes, {}, tile, written=True)
            self.context.places[buffer] = self._registers(base, place, wanted)
            return
        name = self.context.names.unique(stem)
        self.context.places[buffer] = BufferStorage(name, of, lanes, written=True)
        c_type = storage_type(of, self.context.has_float16)
        offset = self.layout.scratch.get(buffer)
        if offset is not None:
            where = f"scratch + {offset}" if offset else "scratch"
            template = "{0} *restrict const {1} = ({0} *)(void *)({2}); /* 64-byte aligned */"
            self.context.emit(other(code(template, c_type, name, where)))
            return
        count = lanes
        for extent in buffer.ty.shape:
            count *= int(extent.value)
        size = count * of.bytes
        alignment = 64 if size >= 64 else 4 if of.bytes < 4 <= size else 0  # instructions load words of bytes
        aligned = f" __attribute__((aligned({alignment})))" if alignment else ""
        self.context.emit(array(c_type, name, count, aligned))

    def _sums_alone(self, buffer: TvmBuffer) -> bool:
        """Whether no other registers of the kernel are added to, so that their name needs no suffix."""
        return [b for b in self.layout.registers if b in self.survey.updated] == [buffer]

    def _registers(self, buffer: TvmBuffer, place: BufferStorage, wanted: dict[int, int]) -> BufferStorage:
        """`place` with a variable for each piece in `wanted`, which is {first element: elements}."""
        of = place.of
        found: dict[int, tuple[Code, int]] = {}
        by_type: dict[str, list[Code]] = {}
        for number, (first, width) in enumerate(wanted.items()):
            ending = place.tile.get(first, f"_{number}" if len(wanted) > 1 else "")
            name = self.context.names.unique(f"{place.name}{ending}")
            found[first] = (name, width)
            c_type = self.type(of, width) if width > 1 else ("uint8_t" if of.kind == "bool" else of.value)
            by_type.setdefault(c_type, []).append(name)
        columns = max(Counter(ending.rpartition("_")[0] for ending in place.tile.values()).values(), default=0)
        each = columns * max(1, _IN_A_LINE // columns) if 1 < columns <= 2 * _IN_A_LINE else _IN_A_LINE
        widths = dict(found.values())
        for c_type, names in by_type.items():
            for start in range(0, len(names), each):
                first_values = [(name, "{0}" if widths[name] > 1 else "0") for name in names[start : start + each]]
                if len(first_values) == 1:
                    self.context.emit(variable(c_type, *first_values[0]))
                    continue
                values = listed(code("{} = {}", *one) for one in first_values)
                self.context.emit(other(code("{} {};", c_type, values)))
        unread = [name for first, (name, width) in found.items() if not self._is_read(buffer, first, width)]
        if unread:
            self.context.emit(other(code("{};", listed(code("(void){}", name) for name in unread))))
        return replace(place, registers=found)

    def _is_read(self, buffer: TvmBuffer, first: int, width: int) -> bool:
        reads = self.survey.reads.get(buffer, set())
        return any(start is None or (start < first + width and first < start + lanes) for start, lanes in reads)

    def _declare(self, s: Stmt) -> None:
        source = self.survey.alias[s.buffer]
        place = self.place(source)
        of, lanes = element_and_lanes(s.buffer.ty.dtype)
        if of == place.of:
            self.context.places[s.buffer] = replace(place, of=of, lanes=lanes)
            return
        name = self.context.names.unique(plain_name(str(s.buffer.name)))
        c_type = storage_type(of, self.context.has_float16)
        loose = self.context.need(f"alias:{of.short}")
        template = "{0}{1} *const {2} = ({0}{1} *)({0}void *){3}; /* {4} */"
        line = code(template, "" if place.written else "const ", loose, name, place.name, c_type)
        self.context.emit(Line(line, LineKind.ALIASES))
        self.context.places[s.buffer] = BufferStorage(name, of, lanes, written=place.written)

    def _store(self, s: Stmt) -> None:
        _, value_lanes = element_and_lanes(s.value.ty)
        place = self.place(s.buffer)
        lanes = max(value_lanes, place.lanes)
        if lanes == 1:
            start = self.contiguous(s.buffer, s.indices)
            if not printed_join(self, s) and not (start and added_dot_products(self, s, start, 0, 1)):
                target = self.element_text(s.buffer, s.indices)
                self.context.emit(assignment(target, self.stored(self.scalar(s.value), place)))
            return
        start = self.contiguous(s.buffer, s.indices)
        if start is not None and printed_window(self, s, start):
            return
        self.column_groups = groups_in(self, s.value)
        touches = self._touches_registers(s) or self._takes_vector_variable(s)
        scattered = start is None and calls_functions(s.value)  # computed as a vector, stored lane by lane
        gathered = start is not None and _is_strided_load(s.value)  # GCC slows down a loop of lanes up to tenfold
        halves = start is not None and self.takes_halves(place, min(lanes, self.context.lanes_limit))
        value = _before_rounding(s.value) if halves else s.value
        whole = not place.of.half or halves
        clean = (start is not None or scattered) and whole and (gathered or has_vector_form(self, value))
        scalar = not clean or self._most_lanes(s, start, value) == 1
        if scalar and not touches and not self._overlaps(s):
            self._lane_loop(s, lanes)
            return
        self._store_pieces(s, start, lanes, value)

    def _lane_loop(self, s: Stmt, lanes: int) -> None:
        name = self.context.names.unique("lane")
        self.context.emit(loop(code("for (int32_t {0} = 0; {0} < {1}; ++{0}) {{", name, lanes), name, lanes))
        with self.context.indented():
            outer, self.lane = self.lane, name
            target = self.element_text(s.buffer, s.indices)
            self.context.emit(assignment(target, self.stored(self.scalar(s.value), self.place(s.buffer))))
            self.lane = outer
        self.context.emit(CLOSING)

    def _store_pieces(self, s: Stmt, start: tuple[Expr, int] | None, lanes: int, value: Expr) -> None:
        of = element_and_lanes(value.ty)[0]
        parts = pieces(lanes, self._most_lanes(s, start, value))
        values: list[tuple[int, int, Text]] = []
        if start and (added_lane_pairs(self, s, start, parts) or added_lane_products(self, s, start, parts)):
            return
        if start and widened_word(self, s, start, lanes):
            return
        hold = len(parts) > 1 and self._overlaps(s)
        for first, width in parts:
            if self._added(s, start, first, width) or (start and added_dot_products(self, s, start, first, width)):
                continue
            self._enter(s, first)
            with loads_together(self, [value]):
                text = self.vector(value, first, width)
            if hold:
                c_type = of.value if width == 1 else self.type(of, width)
                text = Text(self.context.temporary(c_type, text, "held"))
                values.append((first, width, text))
            else:
                self._store_piece(s, start, first, width, text)
        for first, width, text in values:
            self._store_piece(s, start, first, width, text)
        self.context.place, self.context.result, self.context.results = "", None, None

    def _most_lanes(self, s: Stmt, start: tuple[Expr, int] | None, value: Expr) -> int:
        """The lanes of one store: as many as a vector holds of the elements, where it only moves them to memory."""
        limit = self.context.lanes_limit
        place = self.place(s.buffer)
        if start is None or place.registers is not None or not _moves_elements(value):
            return limit
        if place.of.half:  # halves are converted
            return limit
        return max(limit, self.context.vector_bits // (_BYTE * place.of.bytes))

    def _enter(self, s: Stmt, first: int) -> None:
        """Begins the part from lane `first` on: its variables are named by its place in the tile."""
        stored = self.place(s.buffer)
        places = {
            place for load in loads_in([s.value]) if (place := self._tile_place(load.source, load.indices, first))
        }
        if stored.registers is not None:
            places = {self._tile_place(s.buffer, s.indices, first)}
        self.context.place = places.pop() if len(places) == 1 else ""
        name = f"{stored.name}{self.context.place}" if self.context.place else "result"
        self.context.result = (s.value, name) if stored.registers is None else None
        self.context.results = []

    def _tile_place(self, buffer: TvmBuffer, indices: Sequence[Expr], first: int) -> str:
        place = self.place(buffer)
        start = self.contiguous(buffer, indices) if place.tile else None
        if start is None or not isinstance(start[0], tirx.IntImm):
            return ""
        return place.tile.get(int(start[0].value) * start[1] + first, "")

    def _added(self, s: Stmt, start: tuple[Expr, int] | None, first: int, width: int) -> bool:
        """Print `acc = acc + value` of float registers as `acc += value`; False if the store is something else."""
        value = s.value
        if start is None or not isinstance(value, tirx.Add) or element_and_lanes(value.ty)[0].kind != "float":
            return False
        same = isinstance(value.a, ir.TensorLoad) and self.survey.base(value.a.source) == self.survey.base(s.buffer)
        if not same or not tvm_ffi.structural_equal(value.a.indices, s.indices):
            return False
        name = self.register(self.place(s.buffer), start, first, width)
        if name is not None:
            self.context.emit(addition(Lvalue.of(name), self.operand(value.b, first, width)))
        return name is not None

    def _store_piece(self, s: Stmt, start: tuple[Expr, int] | None, first: int, width: int, value: Text) -> None:
        place = self.place(s.buffer)
        if start is not None and self.takes_halves(place, width):
            floats = self.named(value, self.context.need(f"type:f32x{width}"), "real")
            pointer = self.pointer(s.buffer, start, first)
            self.context.emit(call(self.context.need(f"to_half:f32x{width}"), Lvalue.of(floats).address, pointer))
            return
        if start is not None and width > 1 and not place.of.half:
            if place.registers is None:
                loose = self.context.need(f"type:{place.of.value_short}x{width}u")
                pointer = self.pointer(s.buffer, start, first)
                target = Lvalue.in_variable(place.name, code("*({} *){}", loose, pointer), pointer.place.offset)
                self.context.emit(assignment(target, value))
                return
            name = self.register(place, start, first, width)
            if name is not None:
                self.context.emit(assignment(Lvalue.of(name), value))
                return
        of = element_and_lanes(s.value.ty)[0]
        kept = value.code if width == 1 else self.named(value, self.type(of, width))
        for lane in range(width):
            self.lane = first + lane
            target = self.element_text(s.buffer, s.indices)
            self.lane = None
            text = Text(kept, zero=value.zero) if width == 1 else Text(Lvalue.element(kept, lane).value)
            self.context.emit(assignment(target, self.stored(text, place)))

    def _touches_registers(self, s: Stmt) -> bool:
        if self.place(s.buffer).registers is not None:
            return True
        return any(self.place(load.source).registers is not None for load in loads_in([s.value, *s.indices]))

    def _takes_vector_variable(self, s: Stmt) -> bool:
        """Whether a let-bound vector is used: it has one variable per native vector, which no loop can index."""
        used: set[Var] = set()
        variables_in([s.value, *s.indices], used)
        return any(isinstance(self.context.variables.get(variable), list) for variable in used)

    def _overlaps(self, s: Stmt) -> bool:
        """Whether the value reads the stored buffer at any index other than the stored one."""
        base = self.survey.base(s.buffer)
        for load in loads_in([s.value, *s.indices]):
            if self.survey.base(load.source) == base:
                same = len(load.indices) == len(s.indices) and all(
                    tvm_ffi.structural_equal(a, b) for a, b in zip(load.indices, s.indices, strict=True)
                )
                if not same:
                    return True
        return False


def _before_rounding(value: Expr) -> Expr:
    """What a cast to 16 bits rounds, which a store of 16 bits rounds as well."""
    rounds = isinstance(value, tirx.Cast) and element_and_lanes(value.ty)[0].half
    return value.value if rounds and element_and_lanes(value.value.ty)[0].value_short == "f32" else value


def _is_strided_load(value: Expr) -> bool:
    """Whether `value` is elements of a tensor with a constant distance of more than one, as a transposition reads."""
    index = value.indices[-1] if isinstance(value, ir.TensorLoad) and len(value.indices) == 1 else None
    if not isinstance(index, tirx.Ramp) or loads_in([index.base]):
        return False
    return isinstance(index.stride, tirx.IntImm) and not is_one(index.stride)


_BYTE = 8  # bits


def _moves_elements(value: Expr) -> bool:
    """Whether a vector has elements of one tensor as they lie there, or the same number in all lanes."""
    if is_branch(value):
        condition, *chosen = value.args
        return element_and_lanes(condition.ty)[1] == 1 and all(map(_moves_elements, chosen))
    if isinstance(value, tirx.Broadcast):
        return isinstance(value.value, (tirx.IntImm, tirx.FloatImm))
    index = value.indices[-1] if isinstance(value, ir.TensorLoad) else None
    return isinstance(index, tirx.Ramp) and bool(is_one(index.stride))
