"""Vector rounding of floats to integers, half to even: one instruction if the processor has it.

Otherwise integer operations do it. libm would work lane by lane. Adding and subtracting 1.5 * 2**23 is not safe:
compilers may remove it under -funsafe-math-optimizations (which GCC needs for vectors on armv7).
"""

from __future__ import annotations

_GCC = {
    "4": ("__SSE4_1__", "__builtin_ia32_roundps(x, 8)"),
    "8": ("__AVX__", "__builtin_ia32_roundps256(x, 8)"),
    "16": ("__AVX512F__", "__builtin_ia32_rndscaleps_mask(x, 8, x, -1, 4)"),
}
# From 2**23 on (0x4b000000) floats are integers, and NaN stays. The sign is restored for results of -0.
_PLAIN = """  const {i} m = ({i})(({i})x & 0x7fffffff) < 0x4b000000;
  const {f} y = ({f})(({i})x & m);
  const {i} t = __builtin_convertvector(y, {i});
  const {f} d = y - __builtin_convertvector(t, {f});
  const {i} up = (d > 0.5f) | ((d == 0.5f) & -(t & 1)), down = (d < -0.5f) | ((d == -0.5f) & -(t & 1));
  const {i} r = ({i})__builtin_convertvector(t - up + down, {f}) | (({i})x & (-0x7fffffff - 1));
  *v = ({f})((r & m) | (({i})x & ~m));
"""


def vector_nearbyint(rest: str) -> str:
    """`void et_nearbyint_f32x16(f32x16 *v)`: rounds every lane of *v to the nearest integer, half to even."""
    lanes = rest.partition("x")[2]
    plain = _PLAIN.format(i=f"i32x{lanes}", f=rest)
    head = (
        f"static inline __attribute__((always_inline)) void et_nearbyint_{rest}({rest} *v) {{\n  const {rest} x = *v;\n"
    )
    clang = (
        "defined(__clang__) && __has_builtin(__builtin_elementwise_roundeven) && "
        "(defined(__SSE4_1__) || defined(__aarch64__))\n  *v = __builtin_elementwise_roundeven(x);\n"
    )
    own = ""
    if lanes in _GCC:
        feature, call = _GCC[lanes]
        has = f"__has_builtin({call.partition('(')[0]})"
        own = f"#elif defined({feature}) && !defined(__clang__) && {has}\n  *v = {call};\n"
    if lanes == "4":
        own += '#elif defined(__aarch64__)\n  __asm__("frintn %0.4s, %1.4s" : "=w"(*v) : "w"(x));\n'
    return f"{head}#if {clang}{own}#else\n{plain}#endif\n}}\n"
