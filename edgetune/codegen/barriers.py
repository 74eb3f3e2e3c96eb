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

# Preprocessor condition, and the constraint of the register class that holds a float if it is true.
_SCALAR = (
    ("defined(__SSE__)", "v"),
    ("defined(__aarch64__)", "w"),
    ("defined(__arm__) && defined(__ARM_FP)", "t"),
    ("defined(__riscv_flen)", "f"),
    ("defined(__arm__) || defined(__riscv)", "r"),
)
# The same for vectors, by size in bytes. In 32-bit x86 code, vectors of 8 bytes would be MMX registers.
_NEON = "defined(__aarch64__) || (defined(__arm__) && defined(__ARM_NEON))"
_VECTOR = {
    8: (("defined(__x86_64__)", "v"), (_NEON, "w")),
    16: (("defined(__SSE__)", "v"), (_NEON, "w")),
    32: (("defined(__AVX__)", "v"),),
    64: (("defined(__AVX512F__)", "v"),),
}
_FLOAT_BYTES = 4


def keep(short: str) -> str:
    """The macro `ET_KEEP_<short>(x)`, which hides the value of variable `x` of type `short` (such as f32, f32x16)."""
    rows = _SCALAR if short == "f32" else _VECTOR.get(_FLOAT_BYTES * int(short.partition("x")[2]), ())
    barriers = "".join(f"#elif {condition}\n{_barrier(short, constraint)}" for condition, constraint in rows)
    nothing = f"#define ET_KEEP_{short}(x) ((void)0)\n"
    return f"#if defined(ET_ORDERED)\n{nothing}{barriers}#else\n{_barrier(short, 'm')}#endif\n"


def _barrier(short: str, constraint: str) -> str:
    return f'#define ET_KEEP_{short}(x) __asm__("" : "+{constraint}"(x))\n'
