"""Tensor intrinsics of our own for tiles of 16 x 16 elements in the registers of a warp.

Each statement on tiles is a store to the first element of the tile that changes, of a call that has the first elements
of the tiles it needs: so TVM's passes see what is read and written. Calls also have the row pitches of their tiles,
in elements. `edgetune.codegen.cuda.tiles` prints them.
"""

from __future__ import annotations

from functools import cache

from tvm import script
from tvm.s_tir import TensorIntrin

from edgetune.tvm_types import PrimFunc

TILE = 16
"""Rows and columns of a tile, and steps of the sum that one statement adds."""

LEFT, RIGHT, SUMS = "wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator"
"""Scopes of tiles in registers: left and right operands of products, and sums."""

ELEMENTS = {"float16": "f16", "bfloat16": "bf16"}
"""Types of operands, with the short names that end the names of intrinsics."""

_HEAD = "@T.prim_func(s_tir=True)\ndef main({params}):\n{buffers}"
_BODY = """    with T.sblock("root"):
        T.reads({reads})
        T.writes({writes})
{body}
"""
_GRID = """        for i, j in T.grid(16, 16):
            with T.sblock("element"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                {store}"""
_SUM = """        for i, j, k in T.grid(16, 16, 16):
            with T.sblock("element"):
                v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                c[v_i, v_j] = c[v_i, v_j] + T.Cast("float32", a[v_i, v_k]) * T.Cast("float32", b[v_k, v_j])"""
_WHOLE = "{0}[0:16, 0:16]"


def load(side: str, of: str) -> str:
    """The intrinsic that loads a tile from shared memory: `side` is LEFT or RIGHT, `of` the type of elements."""
    return f"edgetune.tile_load_{'left' if side == LEFT else 'right'}_{ELEMENTS[of]}"


def multiply_add(of: str) -> str:
    """The intrinsic that adds the product of two tiles of elements `of` to a tile of sums."""
    return f"edgetune.tile_multiply_add_{ELEMENTS[of]}"


CLEAR, STORE = "edgetune.tile_clear", "edgetune.tile_store"
"""The intrinsics that make a tile of sums zero, and that store one to shared memory."""


@cache
def declare() -> None:
    """Make the intrinsics known to TVM: before schedules that use them are made or replayed."""
    c = ("c", "float32", SUMS)
    _declare(CLEAR, [c], "c[v_i, v_j] = T.float32(0)", 'T.call_extern("float32", "tile_clear", c_pitch)')
    stored = ("d", "float32", "shared")
    _declare(STORE, [c, stored], "d[v_i, v_j] = c[v_i, v_j]", _call("float32", "tile_store", "c", "d"))
    for of in ELEMENTS:
        a, b, shared = ("a", of, LEFT), ("b", of, RIGHT), ("s", of, "shared")
        for tile in (a, b):
            name = tile[0]
            moved = _call(of, "tile_load", "s", name)
            _declare(load(tile[2], of), [shared, tile], f"{name}[v_i, v_j] = s[v_i, v_j]", moved)
        _declare(multiply_add(of), [a, b, c], "", _call("float32", "tile_multiply_add", "c", "a", "b"))


def _call(of: str, name: str, *operands: str) -> str:
    """A call with the first elements of tiles, and the pitches of their rows, those of what is written last."""
    parts = [f"{operand}[0, 0]" for operand in operands]
    pitches = [f"{operand}_pitch" for operand in operands]
    return f'T.call_extern("{of}", "{name}", {", ".join([*parts, *pitches])})'


def _declare(name: str, tiles: list[tuple[str, str, str]], element: str, call: str) -> None:
    written = tiles[-1][0]
    summed = not element
    names = [tile for tile, _, _ in tiles]
    reads = [_WHOLE.format(tile) for tile in ([written, *names[:-1]] if summed else names[:-1])]
    parts = {"reads": ", ".join(reads), "writes": _WHOLE.format(written)}
    described = _function(tiles, parts | {"body": _SUM if summed else _GRID.format(store=element)}, pitches=False)
    body = f"        {written}[0, 0] = {call}"
    TensorIntrin.register(name, described, _function(tiles, parts | {"body": body}, pitches=True), True)


def _function(tiles: list[tuple[str, str, str]], parts: dict[str, str], *, pitches: bool) -> PrimFunc:
    lines = [f"    {tile}_pitch = T.int32()\n    {tile}_step = T.int32()\n" for tile, _, _ in tiles if pitches]
    for tile, of, scope in tiles:
        strides = f", strides=[{tile}_pitch, {tile}_step]" if pitches else ""
        facts = f'align=64, offset_factor=8, scope="{scope}"{strides}'
        lines.append(f'    {tile} = T.match_buffer(p_{tile}, (16, 16), "{of}", {facts})\n')
    params = ", ".join(f"p_{tile}: T.handle" for tile, _, _ in tiles)
    return script.from_source(_HEAD.format(params=params, buffers="".join(lines)) + _BODY.format(**parts))
