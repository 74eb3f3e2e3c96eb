"""Statements on tiles of 16 x 16 elements in the registers of a warp, and the device functions that they call.

The functions are small ones around CUDA's warp matrix functions, so that a kernel says what it does and nothing of
fragments. `edgetune.codegen.cuda.tile_intrinsics` tells how statements on tiles look after lowering.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

import tvm_ffi
from tvm import ir, s_tir, sym, tirx

from edgetune.codegen.context import Context
from edgetune.codegen.cuda.tidy import statements_in, with_values
from edgetune.codegen.cuda.tile_intrinsics import ELEMENTS, LEFT, RIGHT, SUMS, TILE
from edgetune.codegen.intrinsics import operator
from edgetune.codegen.lines import Line, call
from edgetune.codegen.text import Code, Lvalue
from edgetune.codegen.traverse import children
from edgetune.errors import KernelFailed
from edgetune.tvm_types import BufferLoad, Expr, Stmt, TvmBuffer, Var

SCOPES = (LEFT, RIGHT, SUMS)
ALIGNMENT = 32
"""Bytes to which tiles in shared memory are aligned (CUDA C++ Programming Guide, "Warp Matrix Functions")."""

_LOAD, _STORE, _CLEAR, _MULTIPLY = "tile_load", "tile_store", "tile_clear", "tile_multiply_add"
_NAMES = (_LOAD, _STORE, _CLEAR, _MULTIPLY)
_OF_SUMS = """/* 16 x 16 sums in the registers of a warp. All lanes call what works on tiles, with equal arguments. */
using @tile_sums = MMA::fragment<MMA::accumulator, 16, 16, 16, float>;
FUNCTION @tile_clear(@tile_sums &sums)
{
    MMA::fill_fragment(sums, 0.0f);
}
FUNCTION @tile_store(float *to, const @tile_sums &sums, int32_t pitch)
{
    MMA::store_matrix_sync(to, sums, (unsigned)pitch, MMA::mem_row_major);
}
"""
_OF_OPERANDS = """/* 16 x 16 elements as left and right operands; rows in memory are `pitch` elements apart. */
using @tile_left_SHORT =
    MMA::fragment<MMA::matrix_a, 16, 16, 16, TYPE, MMA::row_major>;
using @tile_right_SHORT =
    MMA::fragment<MMA::matrix_b, 16, 16, 16, TYPE, MMA::row_major>;
template <typename Tile>
FUNCTION @tile_load(Tile &tile, const TYPE *from, int32_t pitch)
{
    MMA::load_matrix_sync(tile, from, (unsigned)pitch);
}
FUNCTION @tile_multiply_add(
    @tile_sums &sums, const @tile_left_SHORT &left, const @tile_right_SHORT &right)
{
    MMA::mma_sync(sums, left, right, sums);
}
"""
_WORDS = {"FUNCTION": "static __device__ __forceinline__ void", "MMA": "nvcuda::wmma"}
_TYPES = {"f16": "half", "bf16": "__nv_bfloat16"}
SNIPPETS = ("sums_tile", "tile")
"""Kinds of snippets; that of the sums stands first, in the order of their names."""


def tile_functions(kind: str, of: str) -> str:
    """Types and device functions of the snippet `kind` for elements whose short name is `of`."""
    text = _OF_SUMS if kind == "sums_tile" else _OF_OPERANDS
    for word, written in {**_WORDS, "SHORT": of, "TYPE": _TYPES.get(of, "float")}.items():
        text = text.replace(word, written)
    return text


def is_tile(buffer: TvmBuffer) -> bool:
    """Whether a buffer lies in the registers of a warp, as tiles."""
    return str(buffer.scope()) in SCOPES


def has_tiles(body: Stmt) -> bool:
    """Whether a scheduled function has tiles in the registers of a warp."""
    found: list[TvmBuffer] = []
    tvm_ffi.structural_walk(body, (s_tir.SBlock, lambda block: found.extend(block.alloc_buffers)))
    return any(is_tile(buffer) for buffer in found)


def tile_type(buffer: TvmBuffer, context: Context) -> str:
    """The type of one tile of a buffer; `context` gets the functions that work on it."""
    context.preamble.add("sums_tile:f32")
    scope = str(buffer.scope())
    if scope == SUMS:
        return "@tile_sums"
    of = ELEMENTS[str(buffer.ty.dtype)]
    context.preamble.add(f"tile:{of}")
    return f"@tile_{'left' if scope == LEFT else 'right'}_{of}"


def tile_count(buffer: TvmBuffer) -> int:
    """Tiles of a buffer in the registers of a warp. Raises KernelFailed where it holds no whole ones."""
    elements = prod(int(extent.value) for extent in buffer.ty.shape)
    if elements % TILE**2:
        raise KernelFailed(f"buffer {buffer.name} of {elements} elements holds no whole tiles of {TILE} x {TILE}")
    return elements // TILE**2


@dataclass(frozen=True)
class TileAccess:
    """A tile that a statement touches in shared memory: its first element, and elements between its rows."""

    buffer: TvmBuffer
    index: Expr
    pitch: int
    writes: bool


@dataclass(frozen=True)
class TileStatement:
    """A statement on tiles: `target` is what it changes, `operands` what it needs; with the pitches of their rows."""

    function: str
    target: tuple[TvmBuffer, Expr]
    operands: tuple[tuple[TvmBuffer, Expr], ...]
    pitches: tuple[int, ...]

    @classmethod
    def of(cls, node: Stmt) -> TileStatement | None:
        """The statement, if it is one."""
        if not isinstance(node, tirx.BufferStore) or not isinstance(node.value, ir.Call):
            return None
        function, *args = list(node.value.args) if operator(node.value) == "call_extern" else [None]
        if function is None or str(function.value) not in _NAMES:
            return None
        loads = tuple(_place(arg) for arg in args if isinstance(arg, ir.TensorLoad))
        pitches = tuple(int(arg) for arg in args if isinstance(arg, tirx.IntImm))
        return cls(str(function.value), (node.buffer, node.indices[0]), loads, pitches)

    @property
    def in_shared_memory(self) -> TileAccess | None:
        """The tile in shared memory that is loaded or stored."""
        if self.function == _LOAD:
            return TileAccess(*self.operands[0], self.pitches[0], writes=False)
        if self.function == _STORE:
            return TileAccess(*self.target, self.pitches[-1], writes=True)
        return None

    @property
    def touched(self) -> list[tuple[TvmBuffer, Expr, int]]:
        """All tiles, each with the pitch of its rows: the changed one first."""
        if self.function in (_LOAD, _STORE):
            return [(*self.target, self.pitches[-1]), (*self.operands[0], self.pitches[0])]
        found = self.operands or (self.target,)
        return [(*place, pitch) for place, pitch in zip(found, self.pitches, strict=True)]

    def line(self, element: Callable[[TvmBuffer, Expr], Lvalue], number: Callable[[Expr, int], Expr]) -> Line:
        """The statement in CUDA; `element` prints one of an array.

        `number` gives that of the tile with some first element, where rows have some pitch.
        """
        parts: list[Code] = []
        for buffer, index, pitch in self.touched:
            in_registers = is_tile(buffer)
            printed = element(buffer, number(index, pitch) if in_registers else index)
            parts.append(printed if in_registers else printed.address)
        access = self.in_shared_memory
        pitches = [] if access is None else [access.pitch]
        return call(f"@{self.function}", *parts, *pitches)


@dataclass(frozen=True)
class TileNumbers:
    """Numbers of tiles in the registers of a warp: `bounds` knows those of variables, `values` those of constants."""

    bounds: sym.Analyzer
    values: Mapping[Var, Expr]

    def __call__(self, index: Expr, pitch: int) -> Expr:
        """The number of the tile whose first element has an index."""
        whole = with_values(index, self.values)
        return self.bounds.simplify(whole // (TILE * pitch) * (pitch // TILE) + whole % pitch // TILE)


def _place(load: BufferLoad) -> tuple[TvmBuffer, Expr]:
    return load.source, load.indices[0]


def loaded_tiles(body: Stmt) -> Mapping[TvmBuffer, TvmBuffer]:
    """By buffer of operand tiles, the buffer in shared memory that they are loaded from."""
    found = (TileStatement.of(node) for node in statements_in(body))
    return {one.target[0]: one.operands[0][0] for one in found if one is not None and one.function == _LOAD}


def tile_loops(body: Stmt) -> dict[Var, str]:
    """Names of the loops around statements on tiles: over their rows and columns, and over steps of the sum."""
    values = {node.var: node.value for node in statements_in(body) if isinstance(node, tirx.Bind)}
    found: dict[Var, str] = {}
    for loops, node in _with_loops(body, ()):
        statement = TileStatement.of(node)
        if statement is None:
            continue
        for buffer, index, pitch in statement.touched:
            if is_tile(buffer):
                whole = with_values(index, values)
                for variable in loops:
                    if (along := _along(whole, variable, pitch, str(buffer.scope()))) is not None:
                        found.setdefault(variable, along)
        if statement.function == _MULTIPLY:
            sums = [variable for variable in loops if variable not in found]
            found |= dict(zip(sums, ("k",) if len(sums) == 1 else ("k_o", "k_i"), strict=False))
    return found


def _along(index: Expr, variable: Var, pitch: int, scope: str) -> str | None:
    """Whether the tile with an index moves along rows or columns of the result with a variable; None for neither."""
    parts = sym.detect_linear_equation(index, [variable])
    factor = int(parts[0]) if parts and isinstance(parts[0], tirx.IntImm) else 0
    if factor == 0:
        return None
    return {LEFT: "row", RIGHT: "column"}.get(scope, "row" if factor >= TILE * pitch else "column")


def _with_loops(node: Stmt, loops: tuple[Var, ...]) -> Iterator[tuple[tuple[Var, ...], Stmt]]:
    yield loops, node
    if isinstance(node, tirx.For):
        loops = (*loops, node.loop_var)
    for child in children(node):
        yield from _with_loops(child, loops)


def stored_sums(body: Stmt) -> set[TvmBuffer]:
    """The buffers in shared memory that tiles of sums are stored to."""
    found = (TileStatement.of(node) for node in statements_in(body))
    return {one.target[0] for one in found if one is not None and one.function == _STORE}
