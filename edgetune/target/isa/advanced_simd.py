"""Rows of vector instructions that AArch64 and ARMv7 share: the same steps, in the assembler of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from edgetune.target.isa.vector_instructions import Instruction, VectorInstructions, widening_assembly

_LANES = 4


@dataclass(frozen=True)
class AdvancedSimd:
    """The assembler of one of both, which `macro` says is there. Steps read %1 and %2, and write %0.

    `widen` are the steps of `widening_assembly`, the first of which load and widen to 16 bits. `narrow` makes a vector
    of 16 bits of two of 32 bits, and `narrow_bytes` bytes of two of these. `builtins` are GCC's: it moves them apart,
    where it leaves assembler in order.
    """

    macro: str
    builtins: Mapping[str, str]
    widen: tuple[str, str, str]
    high_product: str
    shift: str
    product: str
    added_product: str
    added_pairs: str
    wide_add: str
    wide_add_high: str
    narrow: str
    narrow_low: str
    add: str
    narrow_bytes: str
    narrow_low_bytes: str

    def row(self, text: str, count: float, builtin: str = "") -> Instruction:
        """An instruction of vectors of four lanes; one with a GCC `builtin` is for that compiler."""
        return Instruction(self.macro, text, builtin, "gcc" if builtin else "any", count)

    def shared(self, own: VectorInstructions) -> VectorInstructions:
        """Its `own` rows, and those that both share."""
        multiply_add = self.row("(({rest}){name}((c), {some}, (b)))", 1.0, self.builtins["multiply_add"])
        high_product = "{rest} high;\n    " + _step(self.high_product, "high", "*x", "m")
        return replace(
            own,
            dot={**own.dot, "dot_i8_i8_2": {_LANES: self._products(("all", "own"))}},
            dot_twice={_LANES: self._products(("all", "own"), ("all2", "own2"))},
            lane_pairs={_LANES: self._lane_pairs()},
            multiply_add_halves={_LANES: (multiply_add,)},
            widen={_LANES: (self.row(widening_assembly(self.widen), 3.0),)},
            widen_halves={_LANES: (self.row(widening_assembly(self.widen[:2], "all"), 2.0),)},
            narrow_one={_LANES: (self.row(self._narrowed_one(), 3.0),)},
            narrow_four={_LANES: (self.row(self._narrowed_four(), 8.0),)},
            high_product={_LANES: (self.row(high_product, 1.0),)},
            rounding_shift={_LANES: (self.row(self._shifted(), 4.0),)},
        )

    def _products(self, *factors: tuple[str, str]) -> tuple[Instruction, Instruction]:
        """Products of 16 bits, which are added to each other, and then two of them to a lane at a time."""
        made, steps = "", ""
        for number, (one, other) in enumerate(factors):
            builtin = self.builtins["added_product" if number else "product"]
            made = f"{builtin}({f'{made}, ' if number else ''}(i8x8){{{one}}}, (i8x8){{{other}}})"
            mnemonic = self.added_product if number else self.product
            steps += "\n    " + _step(mnemonic, "products", f"{{{one}}}", f"{{{other}}}", reads=bool(number))
        added = _step(self.added_pairs, "*sums", "products", reads=True)
        return (
            self.row(f"*sums = {{name}}(*sums, {made});", 1.0 + len(factors), self.builtins["added_pairs"]),
            self.row(f"{{halves}} products;{steps}\n    {added}", 1.0 + len(factors)),
        )

    def _lane_pairs(self) -> tuple[Instruction, Instruction]:
        """Products of 16 bits, which are added to each other, and then to the lanes of two registers."""
        steps = (
            "i16x8 products;",
            _step(self.product, "products", "{x}", "first"),
            _step(self.added_product, "products", "{y}", "second", reads=True),
            _step(self.wide_add, "*sums", "products", reads=True),
            _step(self.wide_add_high, "*more", "products", reads=True),
        )
        shuffle, count = "__builtin_shufflevector", 5.0
        return (
            Instruction(self.macro, "\n    ".join((*_APART, *steps)), shuffle, "gcc", count),
            Instruction(self.macro, "\n    ".join((*_APART, *_ADDED_PAIRS)), shuffle, "clang", count),
        )

    def _shifted(self) -> str:
        """The shift rounds ties up: a negative number that would be a tie is one less before."""
        below = "const {rest} left = -right, below = high + ((high & left) >> 31);\n    "
        return below + _step(self.shift, "*x", "below", "left")

    def _narrowed_one(self) -> str:
        steps = (
            _step(self.narrow_low, "half", "{v0}"),
            _step(self.add, "half", "half", "zeros"),
            _step(self.narrow_low_bytes, "all", "half"),
        )
        return "\n    ".join((*_VECTORS_OF_BYTES, "halves half;", *steps))

    def _narrowed_four(self) -> str:
        steps = (
            _step(self.narrow, "low", "{v0}", "{v1}", early=True),
            _step(self.narrow, "high", "{v2}", "{v3}", early=True),
            _step(self.add, "low", "low", "zeros"),
            _step(self.add, "high", "high", "zeros"),
            _step(self.narrow_bytes, "all", "low", "high", early=True),
        )
        return "\n    ".join((*_VECTORS_OF_BYTES, "halves low, high;", *steps))


_APART = (
    "const i8x16 own = *(const i8x16u *)w;",
    "const i8x8 first = {name}(own, own, 0, 2, 4, 6, 8, 10, 12, 14);",
    "const i8x8 second = {name}(own, own, 1, 3, 5, 7, 9, 11, 13, 15);",
)
_ADDED_PAIRS = (
    "const i16x8 products = __builtin_convertvector({x}, i16x8) * __builtin_convertvector(first, i16x8)",
    "    + __builtin_convertvector({y}, i16x8) * __builtin_convertvector(second, i16x8);",
    "*sums += __builtin_convertvector({name}(products, products, 0, 1, 2, 3), i32x4);",
    "*more += __builtin_convertvector({name}(products, products, 4, 5, 6, 7), i32x4);",
)
"""What clang makes the same instructions of, in the order that it finds best."""

_VECTORS_OF_BYTES = (
    "typedef {value} bytes __attribute__((vector_size(16)));",
    "typedef int16_t halves __attribute__((vector_size(16)));",
    "const halves zeros = (halves){{0}} + (int16_t)zero;",
    "bytes all;",
)


def _step(lines: str, result: str, *operands: str, reads: bool = False, early: bool = False) -> str:
    """A statement of assembler; the result is also read, or written before all operands are."""
    kind = "+w" if reads else "=&w" if early else "=w"
    given = ", ".join(f'"w"({one})' for one in operands)
    return f'__asm__("{lines}" : "{kind}"({result}) : {given});'
