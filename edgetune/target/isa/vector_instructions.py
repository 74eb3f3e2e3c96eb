"""Vector instructions that compilers do not find on their own, as C for the preamble of a kernels file.

The text of each is a template: the words in braces stand for what `edgetune.codegen.vector_snippets` and its neighbours
give. A preamble contains the rows of all instruction sets, each under its condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Literal, NamedTuple

_COMPILERS = {"any": "", "gcc": " && !defined(__clang__)", "clang": " && defined(__clang__)"}


@dataclass(frozen=True)
class Instruction:
    """One instruction in C: the macro `feature` must be defined, and the builtin `name` must exist if there is one.

    `also` is a further condition of the preprocessor.

    The text may take several instructions, whose `count` estimates know.
    """

    feature: str
    text: str
    name: str = ""
    compiler: Literal["any", "gcc", "clang"] = "any"
    count: float = 1.0
    also: str = ""

    def condition(self, **words: str) -> str:
        """Return the condition of the preprocessor under which the instruction is there."""
        has = f" && __has_builtin({self.name.format(**words)})" if self.name else ""
        also = f" && {self.also}" if self.also else ""
        return f"defined({self.feature}){_COMPILERS[self.compiler]}{has}{also}"

    def code(self, **words: str) -> str:
        """Return the C text; "{name}" in it stands for the builtin."""
        return self.text.format(name=self.name.format(**words), **words)


def widening_assembly(lines: Sequence[str], result: str = "*r") -> str:
    """Return the assembler statement of a widening: `lines` read 4 bytes at %1 into the register %0 and widen them."""
    body = "\\n\\t".join(lines)
    return f'__asm__("{body}" : "=w"({result}) : "r"(p), "m"(*(const {{rest}}u *)p));'


class TileSize(NamedTuple):
    """A tile of dot products: steps along the rows, rows of data, and rows of factors.

    For several `taps` of a window, it adds that of each: its rows of data begin with the second one of the tap before.
    `near`: one address reaches all rows of data.
    """

    steps: int
    rows: int
    columns: int
    taps: int = 1
    near: bool = False

    @property
    def calls(self) -> int:
        """The dot products that it is."""
        return self.taps * self.steps * self.rows * self.columns

    @property
    def places(self) -> int:
        """Rows of data that it loads in each step."""
        return self.rows + self.taps - 1


class TileReach(NamedTuple):
    """Most elements of data from the first one of a tile to its last one, and from one row to the next.

    `near`: from the first one to where the last step of the last row begins, in a tile whose rows are near.
    """

    whole: float = inf
    row: float = inf
    near: float = 0


class WindowSize(NamedTuple):
    """Taps whose products one function adds to four lanes; the `function` of one names the type of their factors."""

    taps: int
    function: str


class Window(NamedTuple):
    """Rows and columns of a window; `near`: taps of a row lie within reach of the address of the one in its middle."""

    rows: int
    columns: int
    near: bool


Rows = Mapping[int, tuple[Instruction, ...]]
"""By the lanes of a vector of 32-bit numbers: the instructions to try, best first."""


@dataclass(frozen=True)
class VectorInstructions:
    """The instructions of one instruction set, by operation. What it leaves out is computed by other operations."""

    min_max: Rows = field(default_factory=dict)
    """The maximum or minimum (`word` is "max" or "min") of floats: b or, if one is NaN or both are equal, a."""

    bounded: Rows = field(default_factory=dict)
    """The maximum or minimum, NaN if either is NaN: where `b` is a number, NaN stays NaN. Of two zeros, any."""

    running: Rows = field(default_factory=dict)
    """The maximum or minimum of a number `a` and floats: a if b is a quiet NaN. Of two zeros, any."""

    scaling: Rows = field(default_factory=dict)
    """Floats `p` times 2 to the power of whole floats `k`, rounded once, even where the result is subnormal."""

    exponents: Rows = field(default_factory=dict)
    """Floats `x` as 2 to the power of whole floats `e` times `m`, 3/4 <= m < 3/2, also where they are subnormal. `e` is
    infinite for 0 and infinity; one of both is NaN for negative numbers and NaN."""

    rounding: Rows = field(default_factory=dict)
    """Floats rounded to integers: to the nearest (half to even), down, up, or to zero. `mode` says which in
    instructions of x86 (8, 9, 10 or 11), `letter` in those of ARM (n, m, p or z)."""

    square_root: Rows = field(default_factory=dict)
    """Square roots of floats, rounded once; NaN for negative ones."""

    halves: Rows = field(default_factory=dict)
    """Floats of which half are loaded from the address `low`, half from `high`."""

    signs: Rows = field(default_factory=dict)
    """Returns whether a lane of the integers at `v` is negative."""

    clang_rounds: str = ""
    """The macro with which clang makes one instruction of `__builtin_elementwise_roundeven` and its like."""

    multiply_add: Rows = field(default_factory=dict)
    """c + a * b for 32-bit integers, where a (`low`: its low halves alone) and b fit 16 bits."""

    multiply_add_halves: Rows = field(default_factory=dict)
    """c + a * b for 32-bit integers, where `some` (a in all lanes, or a vector) and b are of 16 bits."""

    dot: Mapping[str, Rows] = field(default_factory=dict)
    """By the name of a function of `edgetune.codegen.dot_snippets`: 32-bit integers at `sums` plus dot products. `some`
    has the numbers that all lanes share as one integer, of 32 bits or of 16, `all` has it in each lane, `own` has those
    of the lanes as such integers."""

    dot_tiles: Mapping[str, Mapping[TileSize, Instruction]] = field(default_factory=dict)
    """By the name of a function of `dot` that adds to one number: the same for several steps of several rows of data
    from x on, by several rows of factors from w on, added to the numbers at s00, s01, .., s10 and so on. Rows of data
    lie `x_apart` elements from each other, a constant after inlining; the factors of all rows in a step lie in turn."""

    tile_reach: Mapping[str, TileReach] = field(default_factory=dict)
    """By the name of such a function."""

    lane_pairs: Rows = field(default_factory=dict)
    """32-bit integers at `sums` plus products of bytes of each lane, of `x` by the first bytes at w and of `y` by the
    second ones; those of a lane lie side by side. The two products of a lane fit 16 bits together. Four lanes are the
    first half: the others are at `more`."""

    lane_products: Mapping[WindowSize, Instruction] = field(default_factory=dict)
    """32-bit integers at `s0` to `s3` plus the products of four bytes at x by four numbers at w, for several taps.
    Their bytes lie `x_apart` from each other, a constant after inlining, and their factors in turn."""

    lane_windows: Mapping[Window, Instruction] = field(default_factory=dict)
    """Eight bytes at `y`: the sums of `bias` and the products of bytes of all taps of a window at x by those at w, by
    the factors of `scales` for bytes (see `edgetune.codegen.scale_tables`), plus `zero`, within the limits of a byte.
    Taps lie `apart` from each other in a row, and rows `rows_apart`, constants after inlining; w is not -128."""

    dot_twice: Rows = field(default_factory=dict)
    """32-bit integers at `sums` plus two dot products of pairs of bytes, of `all` by `own` and of `all2` by `own2`, the
    sum of which fits 16 bits: vectors of type `halves`."""

    widen: Rows = field(default_factory=dict)
    """8-bit integers of type `short` (i8 or u8) at p as 32-bit ones, of type `signed`. For sign extension or zero
    extension, `s` (s or z) is the letter in mnemonics of x86, `letter` (s or u) in those of ARM."""

    widen_halves: Rows = field(default_factory=dict)
    """As `widen`, to integers of 16 bits in `all`, a vector of twice the lanes."""

    widen_word: Rows = field(default_factory=dict)
    """Four bytes of type int8 at `from` as integers of 16 bits at `to`."""

    from_half: Rows = field(default_factory=dict)
    """Floats of 16 bits at p (`_Float16`) as vector *r of floats."""

    to_half: Rows = field(default_factory=dict)
    """Floats *v, rounded to the nearest of 16 bits (half to even), at p."""

    narrow: Rows = field(default_factory=dict)
    """The low bytes of 32-bit integers."""

    nearest: Rows = field(default_factory=dict)
    """Floats at `v` as the nearest integers of 32 bits at `r`, half to even: the largest one of greater floats."""

    narrow_one: Rows = field(default_factory=dict)
    """32-bit integers `v0` plus `zero` (at most 255 in size), within the limits of bytes of type `value`, as vector
    `all` of a type `bytes`, whose first bytes are the result. Names of instructions have the letter `sign` (s or u) of
    the bytes, or the letter `u` where they have none."""

    narrow_four: Rows = field(default_factory=dict)
    """The same of four vectors, `v0` to `v3`, one after the other."""

    high_product: Rows = field(default_factory=dict)
    """32-bit integers `x` times `m`, by 2^31, rounded with ties up, as `high`. m is positive."""

    rounding_shift: Rows = field(default_factory=dict)
    """32-bit integers `high` by 2 to the power of `right` (0 to 31), rounded with ties away from 0, at `x`."""

    scale_down: Rows = field(default_factory=dict)
    """A 32-bit integer `x`, or a vector of such at `x` in place, by `scale` (see `edgetune.graph.fixed_point`), which
    shifts by 2 bits or more."""

    scaled_byte: Rows = field(default_factory=dict)
    """The same plus `zero` (at most 255 in size), within the limits of bytes of type `value`, which is returned. Names
    of instructions have the letter `sign` (s or u)."""

    scaled_byte_once: Rows = field(default_factory=dict)
    """As `scaled_byte`, where x by `scale` is rounded once, and shifted by 1 to 16 bits beside the 31 of a product."""

    rounded_byte: Rows = field(default_factory=dict)
    """A float `x`, rounded half to even, plus `zero` (at most 255 in size), within the limits of bytes of type `value`,
    which is returned. Names of instructions have the letter `sign` (s or u)."""

    scale_by: Rows = field(default_factory=dict)
    """As `scale_down`, where `scale` is the address of both factors (see `edgetune.codegen.scale_tables`), of each lane
    in turn."""

    scaled_byte_by: Rows = field(default_factory=dict)
    """As `scaled_byte`, with such an address."""

    scale_little: Rows = field(default_factory=dict)
    """As `scale_by`, with factors of a table for bytes."""

    scaled_byte_little: Rows = field(default_factory=dict)
    """As `scaled_byte_by`, with such factors."""

    scale_all_by: Rows = field(default_factory=dict)
    """As `scale_by`, where all lanes have one scale."""

    scale_all_little: Rows = field(default_factory=dict)
    """As `scale_little`, where all lanes have one scale."""

    joined: Rows = field(default_factory=dict)
    """Integers `x0`, `x1` and so on of 32 bits in the core's own registers as vector *r: this core has vectors beside
    those, and the rows from here on, which are of four lanes, too."""

    limited: Rows = field(default_factory=dict)
    """32-bit integers at `x` plus `zero` (at most 255 in size), within the limits of int8, in place."""

    low_bytes: Rows = field(default_factory=dict)
    """The low bytes of 32-bit integers at `x` as those at `y`."""

    low_bytes_apart: Rows = field(default_factory=dict)
    """The same, so many bytes from `y` as lanes of `at` say."""

    widen_apart: Rows = field(default_factory=dict)
    """As `widen`, so many bytes from p as lanes of `at` say."""

    float_registers: Mapping[int, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """By bytes (4: a float, more: a vector of floats): conditions of the preprocessor, best first, each with GCC's
    constraint letter of the registers that then hold such a value."""

    def results_of_pairs(self, vector_bits: int) -> int:
        """The results of `lane_pairs` with vectors of so many bits; 0 where there are none."""
        lanes = vector_bits // 32
        return max(lanes, LEAST_PAIRS) if lanes in self.lane_pairs else 0

    def results_of_lanes(self, vector_bits: int) -> tuple[int, ...]:
        """The results of `lane_windows` and of `lane_products`, where there are such."""
        windows = (RESULTS_OF_WINDOW,) if self.lane_windows else ()
        return (*windows, *((RESULTS_OF_LANES,) if vector_bits == _WORD and self.lane_products else ()))


_WORD = 32  # bits

RESULTS_OF_LANES = 4
"""The results of `lane_products`: their data is the bytes of one register."""

NEIGHBOURS = 4
"""The results that `joined` makes a vector of."""

RESULTS_OF_WINDOW = 8
"""The results of `lane_windows`."""

LEAST_PAIRS = 8
"""The fewest results of `lane_pairs`: their products are vectors of 16 bits first, of eight lanes at least."""
