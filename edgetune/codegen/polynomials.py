"""Polynomial approximations of exp, log, log1p, tanh, sigmoid, erf, sin and cos of floats, as lists of steps.

Largest errors in units in the last place, over all results that are normal numbers, against double precision: see
`ULP_BOUND`, which the tests measure. NaN gives NaN, infinities give their limits. If compiler flags allow reassociation
and division by reciprocals (-ffast-math -fno-finite-math-only, or parts of it), the bound is twice as large.

A polynomial is a list of steps, one a line, each in C: F and I stand for the types, SEL chooses lanes by a comparison,
BITS and VAL reinterpret, FTOI and ITOF convert (truncating), SCALE(p, t) adds the low bits of t to the exponent of p, K
makes a vector of a constant, CALL(f, v) replaces v by f(v), MAX(v, w) and MIN(v, w) replace v by the larger or smaller
of both and keep a NaN in v. FAR(f, b, v, w) replaces w by libm's f(v) in lanes whose b is negative. $p is an operand
that each vector has for itself. So a list is written for one vector, or for several whose steps take turns: a step
waits for the one before it, and a core looks ahead over two or three polynomials at most. Steps without such an
operand, as constants, stand once.

KEEP hides a value from compilers that reassociate sums, which would undo the addition of a large constant and the
two-part subtractions: see `barriers`.
"""

from __future__ import annotations

ULP_BOUND = {
    "exp": 1.5,
    "log": 2.0,
    "log1p": 3.0,
    "tanh": 2.5,
    "sigmoid": 3.0,
    "erf": 2.0,
    "sin": 2.75,
    "cos": 2.75,
}

_REDUCED = "x = n ln 2 + r with ln 2 in two parts (Cody and Waite), e^r by a polynomial of degree 6."
EXPLAINED = {
    "exp_in_range": f"e^x where that is a normal number, at most {ULP_BOUND['exp']} ULP from it. {_REDUCED}",
    "exp": f"e^x, at most {ULP_BOUND['exp']} ULP from the exact value. {_REDUCED}",
    "log": f"The natural logarithm, at most {ULP_BOUND['log']} ULP from the exact value. x = 2^e (1 + f) with ln 2 in "
    "two parts (Cody and Waite), log(1 + f) by a polynomial of degree 10.",
    "log1p": f"log(1 + x), at most {ULP_BOUND['log1p']} ULP from the exact value: log of the rounded sum, less what "
    "rounding added to it.",
    "tanh": f"At most {ULP_BOUND['tanh']} ULP from the exact value. An odd polynomial of degree 11 below 0.625 "
    "(Cephes, tanhf), 1 - 2 / (e^2|x| + 1) above.",
    "sigmoid": f"1 / (1 + e^-x), at most {ULP_BOUND['sigmoid']} ULP from the exact value.",
    "erf": f"The error function, at most {ULP_BOUND['erf']} ULP from the exact value. An odd polynomial of degree 11 "
    "below 475/512, above it 1 - e^p(|x|) with a polynomial p of degree 7 (N. Juffa, minimax fits).",
    "sin": f"At most {ULP_BOUND['sin']} ULP from the exact value where |x| <= 8192; beyond that it is the C library's. "
    "x = n pi + r with pi in four parts (Cody and Waite), sin r by an odd polynomial of degree 9.",
    "cos": f"At most {ULP_BOUND['cos']} ULP from the exact value where |x| <= 8192; beyond that it is the C library's. "
    "x = (n + 1/2) pi - r with pi in four parts (Cody and Waite), sin r by an odd polynomial of degree 9.",
}

# exp(c) = 2^n exp(r): c = n ln 2 + r, |r| <= ln 2 / 2; polynomial p of degree 6 for exp(r), our fit, off by at most
# 3.1e-9. Adding MAGIC, at least 2^23, rounds to n and leaves n and the bias of MAGIC in the low bits of t.
_EXP_PARTS = """
    F $t = $c * 0x1.715476p+0f + MAGIC;
    KEEP($t);
    const F $k = $t - MAGIC;
    F $r = $c - $k * 0x1.63p-1f;
    KEEP($r);
    $r = $r + $k * 0x1.bd0106p-13f;
    F $p = 0x1.6a2352p-10f * $r + 0x1.123a6cp-7f;
    $p = $p * $r + 0x1.5558f4p-5f;
    $p = $p * $r + 0x1.555490p-3f;
    $p = $p * $r + 0x1.fffffcp-2f;
    $p = $p * $r + 1.0f;
    $p = $p * $r + 1.0f;
"""

# exp for results that are normal numbers: a shift moves n to the exponent's bits.
_EXP_IN_RANGE = "    const F $c = $x;" + _EXP_PARTS.replace("MAGIC", "0x1.8p+23f") + "    $y = SCALE($p, $t);\n"

# 2^n as a product of two factors, for it may be no number alone: the exponents of 0 get biased halves of n. The first
# multiplication is exact.
SCALED = """    const I $half = BITS($t) >> 1;
    $p = $p * SCALE(K(0.0f), VAL($half));
    KEEP($p);
    $p = $p * SCALE(K(0.0f), VAL(BITS($t) - $half));
"""

# exp of any value: beyond the upper limit the product is infinite. Results that are 0 are multiples of 0, as a core may
# need a hundred cycles for a product that is too small, and rows of masked attention contain many of them. MAGIC's bias
# is 254, that of two factors.
_EXP = (
    """
    const F low = K(-104.0f), high = K(89.0f);
    F $c = $x;
    MAX($c, low);
    MIN($c, high);
"""
    + _EXP_PARTS.replace("MAGIC", "0x1.8001fcp+23f").lstrip("\n")
    + "    $p = SEL($x < -104.0f, K(0.0f), $p);\n"
    + SCALED
    + "    $y = $p;\n"
)

# x = 2^e m, 3/4 <= m < 3/2; subnormals are scaled up first. Limits pass through e. The sign is masked out: the bits of
# -0.0 minus the constant would overflow, although that lane is not chosen.
PARTED = """    const F $s = SEL($x < 0x1p-126f, $x * 0x1p+23f, $x);
    const I $b = (BITS($s) & 0x7fffffff) - 0x3f400000;
    $m = VAL(($b & 0x007fffff) + 0x3f400000);
    $e = ITOF($b >> 23);
    $e = SEL($x < 0x1p-126f, $e - 23.0f, $e);
    $e = SEL($x == 0.0f, K(-__builtin_inff()), $e);
    $e = SEL($x < 0.0f, K(__builtin_nanf("")), $e);
    $e = SEL($x < K(__builtin_inff()), $e, $x);
"""

# log(2^e (1 + f)) = e ln 2 + f - f^2 / 2 + f^3 p(f); polynomial p of degree 7, our fit, off by at most 5e-9 of the
# result. Both parts of ln 2 are positive: an infinite e is never subtracted from itself.
_LOG = (
    """
    F $m, $e;
"""
    + PARTED
    + """    const F $f = $m - 1.0f;
    const F $z = $f * $f;
    F $p = -0x1.71e354p-5f * $f + 0x1.acf4bap-4f;
    $p = $p * $f - 0x1.0d98f2p-3f;
    $p = $p * $f + 0x1.28807ap-3f;
    $p = $p * $f - 0x1.54ed96p-3f;
    $p = $p * $f + 0x1.99699ep-3f;
    $p = $p * $f - 0x1.00004ap-2f;
    $p = $p * $f + 0x1.5555a4p-2f;
    F $t = $p * $f * $z;
    $t = $t + $e * 0x1.c85fe0p-10f;
    KEEP($t);
    $t = $t - 0.5f * $z;
    F $r = $f + $t;
    KEEP($r);
    $y = $r + $e * 0x1.62p-1f;
"""
)

# log1p: what rounding adds to 1 + x changes its logarithm by nearly as much where x is small. From 1 on that is too
# little to matter.
_LOG1P = """
    F $w = 1.0f + $x;
    KEEP($w);
    F $l = $w;
    CALL(log, $l);
    F $d = $w - 1.0f;
    KEEP($d);
    $d = $d - $x;
    $y = $l - SEL($x < 1.0f, $d, K(0.0f));
"""

# tanh: odd polynomial below 0.625 (Cephes), 1 - 2 / (exp(2|x|) + 1) above, then the sign is restored.
_TANH = """
    const F $a = VAL(BITS($x) & 0x7fffffff);
    const F $z = $x * $x;
    F $p = -0x1.75e1f6p-8f * $z + 0x1.52269cp-6f;
    $p = $p * $z - 0x1.b83c52p-5f;
    $p = $p * $z + 0x1.11078ap-3f;
    $p = $p * $z - 0x1.55554ap-2f;
    $p = $p * $z * $x + $x;
    F $e = $a + $a;
    CALL(exp, $e);
    const F $q = 1.0f - 2.0f / ($e + 1.0f);
    const F $s = VAL(BITS($q) | (BITS($x) & (-0x7fffffff - 1)));
    $y = SEL($a < 0.625f, $p, $s);
    $y = SEL($x == $x, $y, $x);
"""

_SIGMOID = """
    F $e = -$x;
    CALL(exp, $e);
    $y = 1.0f / (1.0f + $e);
"""

# erf: two polynomials (N. Juffa), the second in the exponent of exp. From 4 on the result is 1. NaN passes through the
# first polynomial.
_ERF = """
    F $a = VAL(BITS($x) & 0x7fffffff);
    $a = SEL($a > 4.0f, K(4.0f), $a);
    const F $s = $a * $a;
    F $u = -0x1.22p-16f * $a + 0x1.91cfb2p-12f;
    const F $w = -0x1.fd1438p-9f * $a + 0x1.8d6342p-6f;
    $u = $u * $s + $w;
    $u = $u * $a - 0x1.b55cb8p-4f;
    $u = $u * $a - 0x1.450aap-1f;
    $u = $u * $a - 0x1.079d0cp-3f;
    F $e = $u * $a - $a;
    CALL(exp_in_range, $e);
    const F $q = 1.0f - $e;
    const F $far = VAL(BITS($q) | (BITS($x) & (-0x7fffffff - 1)));
    F $p = -0x1.38ep-11f * $s + 0x1.471a58p-8f;
    $p = $p * $s - 0x1.b691b2p-6f;
    $p = $p * $s + 0x1.ce1c44p-4f;
    $p = $p * $s - 0x1.8127p-2f;
    $p = $p * $s + 0x1.06eba8p-3f;
    $p = $p * $x + $x;
    $y = SEL($a > 0x1.db0000p-1f, $far, $p);
"""

# sin r = r + r^3 p(r^2) for |r| <= pi / 2; p is our fit, off by at most 1.2e-8 of sin r. An odd n changes the sign. The
# first three parts of pi have 12, 12 and 11 bits: up to 8192, their products with n or n + 1/2 are exact.
_SINE = """    const F $z = $r * $r;
    F $p = 0x1.5db8cap-19f * $z - 0x1.9f6fa6p-13f;
    $p = $p * $z + 0x1.110ed2p-7f;
    $p = $p * $z - 0x1.55554cp-3f;
    $p = $p * $z * $r + $r;
    $y = VAL(BITS($p) ^ ((BITS($t) & 1) * (-0x7fffffff - 1)));
    const I $beyond = 0x46000000 - (BITS($x) & 0x7fffffff);
"""

_SIN = (
    """
    F $t = $x * 0x1.45f306p-2f + 0x1.8p+23f;
    KEEP($t);
    const F $k = $t - 0x1.8p+23f;
    F $r = $x - $k * 0x1.922p+1f;
    KEEP($r);
    $r = $r + $k * 0x1.2aep-17f;
    KEEP($r);
    $r = $r + $k * 0x1.de8p-30f;
    KEEP($r);
    $r = $r + $k * 0x1.73dcb4p-42f;
"""
    + _SINE
    + "    FAR(sin, $beyond, $x, $y);\n"
)

_COS = (
    """
    F $t = $x * 0x1.45f306p-2f - 0.5f;
    KEEP($t);
    $t = $t + 0x1.8p+23f;
    KEEP($t);
    F $k = $t - 0x1.8p+23f;
    KEEP($k);
    $k = $k + 0.5f;
    F $r = $k * 0x1.922p+1f - $x;
    KEEP($r);
    $r = $r - $k * 0x1.2aep-17f;
    KEEP($r);
    $r = $r - $k * 0x1.de8p-30f;
    KEEP($r);
    $r = $r - $k * 0x1.73dcb4p-42f;
"""
    + _SINE
    + "    FAR(cos, $beyond, $x, $y);\n"
)

BODIES = {
    "exp_in_range": _EXP_IN_RANGE,
    "exp": _EXP,
    "log": _LOG,
    "log1p": _LOG1P,
    "tanh": _TANH,
    "sigmoid": _SIGMOID,
    "erf": _ERF,
    "sin": _SIN,
    "cos": _COS,
}
NEEDS = {"log1p": "log", "tanh": "exp", "sigmoid": "exp", "erf": "exp_in_range"}
RESULTS = {
    "exp_in_range": "e^x",
    "exp": "e^x",
    "log": "Logarithms",
    "log1p": "log(1 + x)",
    "tanh": "tanh",
    "sigmoid": "1 / (1 + e^-x)",
    "erf": "The error function",
    "sin": "Sines",
    "cos": "Cosines",
}


def reinterpretations(name: str) -> list[str]:
    """Snippets that the scalar version of a polynomial needs to convert a float to its bits and back."""
    pairs = (("BITS(", "reinterpret:f32_i32"), ("VAL(", "reinterpret:i32_f32"))
    return [snippet for word, snippet in pairs if word in BODIES[name] or "SCALE(" in BODIES[name]]


def extremes(name: str, short: str) -> list[str]:
    """Snippets of the minimum and maximum that a polynomial needs for type `short`."""
    vector = "" if short == "f32" else "v"
    return [f"{vector}{word}:{short}" for word in ("max", "min") if f" {word.upper()}(" in BODIES[name]]


def far_lanes(name: str, short: str) -> list[str]:
    """Snippets of the lanes of type `short` for which a polynomial does not serve."""
    return [f"any_negative:i{short[1:]}", f"far_{name}:{short}"] if " FAR(" in BODIES[name] and short != "f32" else []
