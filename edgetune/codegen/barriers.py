"""Optimization barriers: keep float sums in the order of the source, even if compiler flags allow another order.

Some sums are exact only in that order: a large constant added and subtracted, a subtraction in two parts. They break
under -fassociative-math and all flags that imply it, and where floats are computed with excess precision (x87). A
compiler that states that it keeps the order, or keeps it under a pragma, gets no barrier, so nothing prevents
vectorisation. For other compilers a barrier is an empty assembler statement that reads and writes a value in its
register: it costs no instruction and hides the value's origin. The compiler's own macros select the register class. If
no row applies (vectors wider than the registers, processors not listed), the value passes through memory: correct, but
slower.
"""

from __future__ import annotations

from itertools import groupby, zip_longest

from edgetune.target.isa import INSTRUCTION_SETS

# Clang supports the pragma since version 11; in Apple's numbering, since 13.
ORDER = """#if defined(__clang__) && __clang_major__ >= 13
#define ET_IN_ORDER _Pragma("clang fp reassociate(off)")
#else
#define ET_IN_ORDER
#endif
/* Sums in order without barriers: clang by the pragma, GCC from 12 on unless it says otherwise; never on x87, nor on
   32-bit ARM, where NEON takes -funsafe-math-optimizations. */
#if defined(__arm__) || (__FLT_EVAL_METHOD__ != 0 && __FLT_EVAL_METHOD__ != 16)
#elif defined(__clang__) && __clang_major__ >= 13
#define ET_ORDERED 1
#elif !defined(__clang__) && __GNUC__ >= 12 && !defined(__ASSOCIATIVE_MATH__)
#define ET_ORDERED 1
#endif
"""

_FLOAT_BYTES = 4


def _registers(size: int) -> list[tuple[str, str]]:
    """(condition of the preprocessor, constraint of the registers that then hold a value of `size` bytes), best first.

    The best of each instruction set come first, so that none falls back to general registers while it has others.
    """
    choices = [isa.vectors.float_registers.get(size, ()) for isa in INSTRUCTION_SETS.values()]
    ranked = [row for rank in zip_longest(*choices) for row in rank if row is not None]
    runs = groupby(ranked, key=lambda row: row[1])
    return [(" || ".join(condition for condition, _ in run), constraint) for constraint, run in runs]


def keep(short: str) -> str:
    """The macro `ET_KEEP_<short>(x)`, which hides the value of variable `x` of type `short` (such as f32, f32x16)."""
    size = _FLOAT_BYTES * int(short.partition("x")[2] or 1)
    barriers = "".join(
        f"#elif {condition}\n{_barrier(short, constraint)}" for condition, constraint in _registers(size)
    )
    nothing = f"#define ET_KEEP_{short}(x) ((void)0)\n"
    return f"#if defined(ET_ORDERED)\n{nothing}{barriers}#else\n{_barrier(short, 'm')}#endif\n"


def _barrier(short: str, constraint: str) -> str:
    return f'#define ET_KEEP_{short}(x) __asm__("" : "+{constraint}"(x))\n'
