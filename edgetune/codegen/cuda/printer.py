"""CUDA statements: what differs from C inside a kernel.

Thread axes are read where a kernel begins; buffers lie in registers or in shared memory; a barrier is
`__syncthreads()`. A loop that indexes a buffer of one thread is unrolled by the compiler, so that the buffer becomes
registers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod

import tvm
import tvm_ffi
from tvm import ir, tirx

from edgetune.affine.expressions import conjuncts, loads_in
from edgetune.codegen.context import BufferStorage, Context
from edgetune.codegen.cuda.async_copies import ASYNCHRONOUS, SIZES, group_call
from edgetune.codegen.cuda.half import cuda_type, rounded, widened
from edgetune.codegen.cuda.lower import thread_variable
from edgetune.codegen.cuda.names import buffer_name
from edgetune.codegen.cuda.tidy import LOCAL, SHARED, copies_in, is_barrier, statements_in
from edgetune.codegen.cuda.tiles import (
    ALIGNMENT,
    TileNumbers,
    TileStatement,
    is_tile,
    loaded_tiles,
    stored_sums,
    tile_count,
    tile_type,
)
from edgetune.codegen.cuda.unrolling import unrolled_loops
from edgetune.codegen.cuda.vector_access import (
    VECTOR_BYTES,
    VectorAccess,
    VectorFinder,
    VectorLoop,
    guarded_value,
    same,
    vector_type,
)
from edgetune.codegen.cuda.warp_reduction import is_shuffled, shuffle_name, wide_sums
from edgetune.codegen.dtypes import Element, element_and_lanes
from edgetune.codegen.intrinsics import operator
from edgetune.codegen.lines import Line, LineKind, addition, array, assignment, call, constant, declaration, other
from edgetune.codegen.literals import digits, plus
from edgetune.codegen.memory import Survey, size_of
from edgetune.codegen.statements import ACCUMULATOR, Layout, StatementPrinter
from edgetune.codegen.text import LOOSE, UNARY, Address, Code, Lvalue, Text, called, code, compared, listed
from edgetune.codegen.traverse import children, expressions
from edgetune.errors import KernelFailed
from edgetune.tvm_types import Expr, Stmt, TvmBuffer, Var

_SHORT = {"blockIdx": "block", "threadIdx": "thread"}
_COMPARISONS = (tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE)


class CudaPrinter(StatementPrinter):
    """Prints the statements of one launch; buffers in shared memory lie in what it asks for, where that is `dynamic`.

    Buffers in device memory are aligned to whole vectors, but those that are `unaligned`. `vectors` has those that are
    read or written as vectors.
    """

    def __init__(self, context: Context, survey: Survey, unaligned: Collection[TvmBuffer], *, dynamic: bool) -> None:
        super().__init__(context, survey, Layout())
        self._wide: set[TvmBuffer] = set()  # of 16-bit elements that lie in memory as floats
        self._vectors = VectorFinder(context.analyzer, lambda b: b not in unaligned and b not in self._wide)
        self._held: list[tuple[VectorAccess, Code, Var]] = []  # vectors, the arrays of their elements, and their index
        self._dynamic = dynamic
        self._base = Code("")  # of dynamic shared memory
        self._shared_bytes = 0  # of the buffers so far
        self._unrolled: set[Var] = set()
        self._copies: dict[TvmBuffer, TvmBuffer] = {}
        self._sums: set[TvmBuffer] = set()  # in shared memory, stored there as tiles
        self._loaded: Mapping[TvmBuffer, TvmBuffer] = {}  # tiles in registers, and where they are loaded from
        self._bound: dict[Var, Expr] = {}  # constants
        self.vectors: set[TvmBuffer] = set()
        self._loops = 0
        self._asynchronous = False  # whether copies into shared memory are begun without waiting
        self._touches_shared = False  # a statement printed so far
        self._statement_by_type[tirx.AttrStmt] = self._attribute
        self._by_type[tirx.And] = self._all

    def launch(self, body: Stmt, extents: dict[str, int]) -> None:
        """Emit the whole body of a kernel."""
        for variable, axis in sorted(_thread_variables(body).items(), key=lambda item: item[1]):
            self._read_axis(variable, axis, extents[axis])
        self._unrolled = unrolled_loops(body)
        self._wide = wide_sums(body, self.survey)
        self._bound = {node.var: node.value for node in statements_in(body) if isinstance(node, tirx.Bind)}
        self._copies, self._loaded = copies_in(body), loaded_tiles(body)
        self._sums = stored_sums(body)
        if self._dynamic:
            self._declare_dynamic()
        self.statement(body)

    def _declare_dynamic(self) -> None:
        kind = "tiles" if self._sums else "shared"
        self.context.preamble.add(f"dynamic_{kind}:u8")
        self._base = self.context.names.unique(kind)
        self.context.emit(other(code("DYNAMIC_{}({});", kind.upper(), self._base)))

    def _read_axis(self, variable: Var, axis: str, extent: int) -> None:
        bounds = tvm.ir.Range.from_min_extent(tirx.IntImm("int32", 0), tirx.IntImm("int32", extent))
        self.context.analyzer.bind(variable, bounds, True)
        if extent == 1:
            self.context.variables[variable] = digits(0)
            return
        of, _, letter = axis.partition(".")
        name = self.context.names.unique(f"{_SHORT[of]}_{letter}")
        self.context.emit(constant("int32_t", name, f"(int32_t){axis}"))
        self.context.variables[variable] = Text(name, index=True)

    def _all(self, e: Expr) -> Text:
        """Comparisons side by side, without brackets around each."""
        parts = list(conjuncts(e))
        if not all(isinstance(part, _COMPARISONS) for part in parts):
            return compared(self.scalar(e.a), "&&", self.scalar(e.b))
        return Text(listed((self.scalar(part) for part in parts), " && "), LOOSE)

    def _attribute(self, s: Stmt) -> None:
        if s.attr_key == "virtual_thread":
            raise KernelFailed("a virtual thread is left after lowering")
        self._asynchronous |= s.attr_key == ASYNCHRONOUS
        self.statement(s.body)
        self._asynchronous &= s.attr_key != ASYNCHRONOUS

    def _for(self, s: Stmt) -> None:
        loop = VectorLoop.of(s)
        if loop is not None and self._loaded:  # operands of tiles: sums run over several axes as one
            loop = loop.regrouped(self.context.analyzer)
        if loop is None or not (self._copied(loop) or (not self._asynchronous and self._as_vectors(s, loop))):
            self._plain_loop(s)

    def _plain_loop(self, s: Stmt) -> None:
        if s.loop_var in self._unrolled:
            self.context.emit(Line(Code("#pragma unroll"), LineKind.UNROLLS))
        self._loops += 1
        super()._for(s)
        self._loops -= 1

    def _copied(self, loop: VectorLoop) -> bool:
        """Print a loop that copies as assignments of vectors; False if it does anything else."""
        stored, copied = self._vectors.stored(loop), self._vectors.copied(loop)
        if stored is None or copied is None:
            return False
        condition, source = copied
        of, _ = element_and_lanes(stored.buffer.ty.dtype)
        lanes = min(stored.lanes, source.lanes)
        if self._asynchronous:
            given = () if condition is None else (self.scalar(condition),)
            for first in range(0, loop.count, lanes):
                to, taken = self._vector_at(stored, first), self._vector_at(source, first)
                self._begin_copy(lanes * of.bytes, to, taken, given)
            return True
        chosen = None if condition is None else self.scalar(condition).at(UNARY)
        for first in range(0, loop.count, lanes):
            value: Code = self._vector(source, first, lanes)
            if chosen is not None:
                value = code("{} ? {} : {}{{}}", chosen, value, vector_type(of, lanes))
            self.context.emit(assignment(self._vector(stored, first, lanes), Text(value)))
        self._touches_shared |= str(stored.buffer.scope()) == SHARED
        return True

    def _as_vectors(self, s: Stmt, loop: VectorLoop) -> bool:
        """Print a loop with its operands, and its result, as vectors; False where there are none.

        nvcc reads adjacent elements of shared memory as vectors by itself, because it knows their alignment.
        """
        stored = self._vectors.stored(loop)
        loaded = [one for one in self._vectors.loaded(loop) if str(one.buffer.scope()) != SHARED]
        if stored is None and not loaded:
            return False
        outer = list(self._held)
        for access in [*loaded, *([stored] if stored else [])]:
            stem = "result" if access is stored else f"{self.place(access.buffer).name}_values"
            name = self.context.names.unique(stem)
            c_type = cuda_type(element_and_lanes(access.buffer.ty.dtype)[0])
            self.context.emit(other(code("__align__({}) {} {}[{}];", VECTOR_BYTES, c_type, name, loop.count)))
            for first in range(0, loop.count, access.lanes) if access is not stored else ():
                value = Text(self._vector(access, first, access.lanes))
                self.context.emit(assignment(self._own(access, name, first), value))
            self._held.append((access, name, s.loop_var))
        self._unrolled.add(s.loop_var)
        self._plain_loop(tirx.For(s.loop_var, s.min, s.extent, int(s.kind), loop.store))
        if stored is not None:
            for first in range(0, loop.count, stored.lanes):
                own = self._own(stored, self._held[-1][1], first)
                self.context.emit(assignment(self._vector(stored, first, stored.lanes), Text(own)))
        self._held = outer
        return True

    def _own(self, access: VectorAccess, name: Code, first: int) -> Lvalue:
        """The vector in the array of a thread."""
        c_type = vector_type(element_and_lanes(access.buffer.ty.dtype)[0], access.lanes)
        where = Lvalue.element(name, first).address if first else name
        return Lvalue.in_variable(name, code("*({} *){}", c_type, where))

    def _vector(self, access: VectorAccess, first: int, lanes: int) -> Lvalue:
        """The vector from element `first` of an access on."""
        place = self.place(access.buffer)
        const, where = "" if place.written else "const ", self._vector_at(access, first)
        return Lvalue.in_variable(place.name, code("*({}{} *){}", const, vector_type(place.of, lanes), where))

    def _vector_at(self, access: VectorAccess, first: int) -> Address:
        """The address of the vector from element `first` of an access on."""
        at = plus(self.scalar(access.first), first, element_and_lanes(access.first.ty)[0])
        self.vectors.add(access.buffer)
        return Lvalue.element(self.place(access.buffer).name, at).address

    def _begin_copy(self, nbytes: int, to: Address, source: Address, given: Sequence[Text]) -> None:
        """Begin a copy into shared memory; `given` is the condition under which there is something to copy, if any."""
        if nbytes not in SIZES:
            raise KernelFailed(f"{nbytes} bytes cannot be copied asynchronously, only {', '.join(map(str, SIZES))}")
        self.context.emit(call(self.context.need(f"copy_async:{nbytes}"), to, source, *given))
        self._touches_shared = True

    def _copied_element(self, s: Stmt) -> None:
        """Begin the copy of one element."""
        condition, value = guarded_value(s.value)
        if not isinstance(value, ir.TensorLoad) or self.place(value.source).of != self.place(s.buffer).of:
            raise KernelFailed("what is computed cannot be copied asynchronously")
        given = () if condition is None else (self.scalar(condition),)
        to, source = (
            self.element_text(one, at).address for one, at in ((s.buffer, s.indices), (value.source, value.indices))
        )
        self._begin_copy(self.place(s.buffer).of.bytes, to, source, given)

    def element_text(self, buffer: TvmBuffer, indices: Sequence[Expr]) -> Lvalue:
        """The lvalue of one element: in the array of a thread where its vector is there."""
        for access, name, variable in self._held:
            if access.buffer == buffer and same(access.index, indices[0]):
                return Lvalue.element(name, self.scalar(variable))
        return super().element_text(buffer, indices)

    def _load(self, e: Expr) -> Text:
        if e.source in self._wide:
            return Text(self.element_text(e.source, e.indices))
        if not self._narrow(e.source):
            return super()._load(e)
        return widened(self.place(e.source).of, self.element_text(e.source, e.indices))

    def _narrow(self, buffer: TvmBuffer) -> bool:
        """Whether elements of a buffer have 16 bits where they lie: registers and sums are floats instead."""
        place = self.place(buffer)
        return place.of.half and not place.registers and buffer not in self._wide

    def _rounded(self, a: Text, to: Element) -> Text:
        return widened(to, rounded(to, a))

    def _half(self, value: Expr, of: Element) -> Code:
        """A value as an element of 16 bits: one that is moved stays as it is."""
        if isinstance(value, ir.TensorLoad) and self.place(value.source).of == of and self._narrow(value.source):
            return self.element_text(value.source, value.indices)
        if isinstance(value, ir.Call) and operator(value) == "if_then_else":
            condition, yes, no = value.args
            return code("{} ? {} : {}", self.scalar(condition).at(UNARY), self._half(yes, of), self._half(no, of))
        return rounded(of, self.scalar(value.value if isinstance(value, tirx.Cast) else value)).code

    def _call(self, e: Expr) -> Text:
        if name := shuffle_name(e):
            return called(self.context.need(f"{name}:f32"), *map(self.scalar, list(e.args)[1:]))
        return super()._call(e)

    def _evaluate(self, s: Stmt) -> None:
        if is_barrier(s):
            scope = str(s.value.args[0].value)
            if scope != SHARED:
                raise KernelFailed(f"the CUDA printer knows no barrier for {scope} memory")
            if self._touches_shared or self._loops:  # before that, nothing waits for another thread
                self.context.emit(other(Code("__syncthreads();")))
            return
        if (call := group_call(s.value)) is not None:
            name, given = call
            self.context.preamble.add(name)
            self.context.emit(other(Code(f"@{name}({given});")))
            return
        super()._evaluate(s)

    def _store(self, s: Stmt) -> None:
        value, same = s.value, partial(_loads_same, s)
        used = [s.buffer, *(load.source for load in loads_in(expressions(s)))]
        self._touches_shared |= any(str(buffer.scope()) == SHARED for buffer in used)
        if (on_tiles := TileStatement.of(s)) is not None:
            number = TileNumbers(self.context.analyzer, self._bound)
            self.context.emit(on_tiles.line(lambda buffer, index: self.element_text(buffer, [index]), number))
            return
        if self._asynchronous and self.place(s.buffer).of.bytes in SIZES:  # smaller ones are stored at once
            self._copied_element(s)
            return
        if same(value) or self._is_own(s):  # what a sum over threads leaves
            return
        narrow, of = self._narrow(s.buffer), self.place(s.buffer).of
        adds = isinstance(value, tirx.Add) and same(value.a) and of.kind == "float"
        if adds and not narrow:
            self.context.emit(addition(self.element_text(s.buffer, s.indices), self.scalar(value.b)))
            return
        if of.half:
            wide = value.value if is_shuffled(value) else value
            text = Text(self._half(value, of)) if narrow else self.scalar(wide)
            self.context.emit(assignment(self.element_text(s.buffer, s.indices), text))
            return
        super()._store(s)

    def _is_own(self, s: Stmt) -> bool:
        """Whether a store moves an element to where it is: two buffers may share registers."""
        if not isinstance(s.value, ir.TensorLoad) or self.place(s.buffer).of != self.place(s.value.source).of:
            return False
        return self.element_text(s.buffer, s.indices) == self.element_text(s.value.source, s.value.indices)

    def _allocate(self, buffer: TvmBuffer) -> None:
        of, lanes = element_and_lanes(buffer.ty.dtype)
        count = lanes * prod(int(extent.value) for extent in buffer.ty.shape)
        scope = str(buffer.scope())
        sums = scope == LOCAL and buffer in self.survey.updated
        copied = self._copies.get(buffer)
        if is_tile(buffer):
            self._allocate_tiles(buffer)
            return
        stem = f"{self.place(copied).name}_shared" if copied is not None else buffer_name(buffer)
        stem = "sums_shared" if buffer in self._sums else stem
        name = self.context.names.unique(ACCUMULATOR if sums else stem)
        place = BufferStorage(name, of, lanes, written=True)
        if scope == LOCAL and count == 1:  # the kernel's own text clears it
            c_type = "uint8_t" if of.kind == "bool" else of.value
            self.context.places[buffer] = replace(place, registers={0: (name, 1)})
            self.context.emit(declaration(c_type, name))
            return
        self.context.places[buffer] = place
        c_type, nbytes = (of.value, 4) if buffer in self._wide else (cuda_type(of), of.bytes)
        if scope == LOCAL:
            self.context.emit(array(c_type, name, count))
        elif scope == SHARED:
            place_in_shared = self._shared_bytes
            self._shared_bytes += _padded(count * nbytes)
            if self._dynamic:
                template = "{0} *const {1} = ({0} *)({2} + {3});"
                self.context.emit(other(code(template, c_type, name, self._base, place_in_shared)))
                return
            # Aligned so that nvcc reads adjacent elements of one thread as a vector, or for tiles.
            alignment = ALIGNMENT if self._loaded else VECTOR_BYTES
            aligned = f"__align__({alignment}) " if count * nbytes >= VECTOR_BYTES else ""
            self.context.emit(other(code("__shared__ {}{} {}[{}];", aligned, c_type, name, count)))
        else:
            raise KernelFailed(f"buffer {buffer.name} lies in {scope} memory, which the CUDA printer does not know")

    def _allocate_tiles(self, buffer: TvmBuffer) -> None:
        """Declare tiles in the registers of a warp: operands are called after their tensors."""
        of, lanes = element_and_lanes(buffer.ty.dtype)
        source = self._copies.get(self._loaded[buffer]) if buffer in self._loaded else None
        stem = ACCUMULATOR if source is None else f"{self.place(source).name}_tile"
        name = self.context.names.unique(stem)
        self.context.places[buffer] = BufferStorage(name, of, lanes, written=True)
        self.context.emit(other(code("{} {}[{}];", tile_type(buffer, self.context), name, tile_count(buffer))))


def shared_bytes(body: Stmt, found: Survey) -> int:
    """Bytes of all buffers in shared memory."""
    wide = wide_sums(body, found)
    allocated = [node.buffer for node in statements_in(body) if isinstance(node, tirx.AllocBuffer)]
    return sum(_padded(size_of(b) * (2 if b in wide else 1)) for b in allocated if str(b.scope()) == SHARED)


def _padded(nbytes: int) -> int:
    return -(-nbytes // VECTOR_BYTES) * VECTOR_BYTES


def _loads_same(s: Stmt, e: Expr) -> bool:
    """Whether `e` is the element that the statement stores."""
    if not isinstance(e, ir.TensorLoad) or e.source != s.buffer or len(e.indices) != len(s.indices):
        return False
    return all(tvm_ffi.structural_equal(a, b) for a, b in zip(e.indices, s.indices, strict=True))


def _thread_variables(node: Stmt) -> dict[Var, str]:
    found: dict[Var, str] = {}
    if isinstance(node, tirx.AttrStmt) and node.attr_key == "thread_extent":
        found[thread_variable(node)] = str(node.node.thread_tag)
    for child in children(node):
        found |= _thread_variables(child)
    return found
