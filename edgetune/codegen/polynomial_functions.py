"""C functions of polynomials, for scalars, vectors of any width, and several vectors at once; and of conversions."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable

from edgetune.codegen.far_lanes import far_steps
from edgetune.codegen.polynomials import BODIES, EXPLAINED, PARTED, RESULTS, SCALED
from edgetune.codegen.vector_snippets import either, instructions, lanes_of
from edgetune.target.isa.vector_instructions import Rows, VectorInstructions

_COMMENT_COLUMNS = 112
_VECTOR_FUNCTION = "static inline __attribute__((always_inline)) void "


def macros(short: str) -> str:
    """The macros of the template for type `short` (such as f32, f32x16)."""
    if short == "f32":
        return (
            "#define ET_SEL_f32(m, a, b) ((m) ? (a) : (b))\n"
            "#define ET_K_f32(c) (c)\n"
            "#define ET_BITS_f32(x) @reinterpret_f32_i32(x)\n"
            "#define ET_VAL_f32(x) @reinterpret_i32_f32(x)\n"
            "#define ET_FTOI_f32(x) ((int32_t)(x))\n"
            "#define ET_ITOF_f32(x) ((float)(x))\n"
            "#define ET_SCALE_f32(p, t) \\\n"
            "    ET_VAL_f32((int32_t)((uint32_t)ET_BITS_f32(p) + ((uint32_t)ET_BITS_f32(t) << 23)))\n"
        )
    ints = "i" + short[1:]
    return (
        f"#define ET_SEL_{short}(m, a, b) (({short})((({ints})(a) & ({ints})(m)) | (({ints})(b) & ~({ints})(m))))\n"
        f"#define ET_K_{short}(c) ((c) - ({short}){{0}})\n"
        f"#define ET_BITS_{short}(x) (({ints})(x))\n"
        f"#define ET_VAL_{short}(x) (({short})(x))\n"
        f"#define ET_FTOI_{short}(x) __builtin_convertvector((x), {ints})\n"
        f"#define ET_ITOF_{short}(x) __builtin_convertvector((x), {short})\n"
        f"#define ET_SCALE_{short}(p, t) (({short})(({ints})(p) + (({ints})(t) << 23)))\n"
    )


def instantiated(body: str, short: str) -> str:
    """The steps in the C of one type; operands are still marked."""
    vector = short != "f32"
    body = re.sub(r"\b(SEL|K|BITS|VAL|FTOI|ITOF|SCALE|KEEP)\(", rf"ET_\1_{short}(", body)
    if not vector:
        body = re.sub(r"CALL\((\w+), (\$\w+)\)", r"\2 = @\1_f32(\2)", body)
        body = re.sub(r"FAR\((\w+), (\$\w+), (\$\w+), (\$\w+)\)", r"if (\2 < 0) \4 = __builtin_\1f(\3)", body)
    for word in ("max", "min"):
        extreme = rf"@v{word}_{short}(&\1, &\2)" if vector else rf"\1 = @{word}_{short}(\1, \2)"
        body = re.sub(rf"\b{word.upper()}\((\$\w+), (\$?\w+)\)", extreme, body)
    body = re.sub(r"\bF\b", short if vector else "float", body)
    return re.sub(r"\bI\b", "i" + short[1:] if vector else "int32_t", body)


def _alone(steps: str, short: str) -> str:
    """The steps for one vector of type `short`, or one number."""
    steps = "".join(f"{line}\n" for step in steps.splitlines() for line in far_steps(step, short) or [step])
    return re.sub(r"CALL\((\w+), (\$\w+)\)", rf"@\1_{short}(&\2)", steps).replace("$", "")


def _in_turns(steps: str, short: str, count: int) -> str:
    """The steps for `count` vectors of type `short`: each for all vectors before the next one."""
    made: list[str] = []
    for step in steps.splitlines():
        if called := re.match(r"( *)CALL\((\w+), \$(\w+)\);", step):
            indent, name, operand = called.groups()
            made.append(f"{indent}@{name}_each_{short}x{count}({_listed(f'&{operand}', count)});")
        elif far := far_steps(step, short, count):
            made += far
        elif "$" in step:
            made += [re.sub(r"\$(\w+)", rf"\g<1>{number}", step) for number in range(count)]
        else:
            made.append(step)
    return "".join(f"{step}\n" for step in made)


def _listed(stem: str, count: int) -> str:
    return ", ".join(f"{stem}{number}" for number in range(count))


_SHORTER: dict[str, Callable[[VectorInstructions], Rows]] = {
    SCALED: lambda isa: isa.scaling,
    PARTED: lambda isa: isa.exponents,
}
"""Steps for which some instruction sets have fewer, with operands of the same names."""


def _steps(name: str, short: str) -> str:
    """The steps of a polynomial in the C of one type, with those of instruction sets that have shorter ones."""
    body = BODIES[name]
    for plain, rows in _SHORTER.items():
        found = list(instructions(rows, lanes_of(short))) if short != "f32" and plain in body else []
        operands = {one: f"${one}" for one in re.findall(r"\$(\w+)", body)}
        body = body.replace(plain, either([(one.condition(), one.code(**operands)) for one in found], plain))
    return instantiated(body, short).lstrip("\n")


def _order(name: str) -> str:
    return "    ET_IN_ORDER\n" if "KEEP(" in BODIES[name] else ""


def function(name: str, short: str) -> str:
    """C function of a polynomial: `float @exp_f32(float)`, or `void @exp_f32x16(f32x16 *)` in place.

    Vectors are passed by pointer and always inlined: by value, their ABI would depend on compiler flags (-Wpsabi).
    """
    body = _alone(_steps(name, short), short)
    comment = "/* " + "\n   ".join(textwrap.wrap(EXPLAINED[name], _COMMENT_COLUMNS)) + " */\n"
    order = _order(name)
    if short == "f32":
        return f"{comment}static inline float @{name}_f32(float x)\n{{\n{order}    float y;\n{body}    return y;\n}}\n"
    return (
        f"{comment}{_VECTOR_FUNCTION}@{name}_{short}({short} *v)\n{{\n"
        f"{order}    const {short} x = *v;\n    {short} y;\n{body}    *v = y;\n}}\n"
    )


def function_of_each(name: str, rest: str) -> str:
    """`void @exp_each_f32x8x5(f32x8 *v0, f32x8 *v1, ..)`: a polynomial of several vectors, step by step in turns."""
    short, _, number = rest.rpartition("x")
    count = int(number)
    steps = f"    const {short} $x = *$v;\n    {short} $y;\n{_steps(name, short)}    *$v = $y;\n"
    what = f"{RESULTS[name]} of {count} vectors, as @{name}_{short}."
    comment = f"/* {what} In turns, no step waits for the one before it. */\n"
    head = f"{_VECTOR_FUNCTION}@{name}_each_{rest}({_listed(f'{short} *v', count)})"
    return f"{comment}{head}\n{{\n{_order(name)}{_in_turns(steps, short, count)}}}\n"


def converter(kind: str, short: str) -> str:
    """`void @saturated_i8_f32x16(const f32x16 *, i32x16 *)`: floats to integers in i8's range; "whole": no clamp."""
    ints = "i" + short[1:]
    target = kind.partition("_")[2]
    if not target:
        body = "    const F c = SEL(x == x, x, K(0.0f));\n    *r = FTOI(c);\n"
    elif target == "i32":
        body = (
            "    F c = SEL(x == x, x, K(0.0f));\n    c = SEL(c > -0x1p+31f, c, K(-0x1p+31f));\n"
            "    const I big = (I)(c >= 0x1p+31f);\n    c = SEL(big, K(0.0f), c);\n"
            "    *r = FTOI(c) | (big & 0x7fffffff);\n"
        )
    else:
        bits, signed = int(target[1:]), target[0] == "i"
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        body = (
            f"    F c = SEL(x == x, x, K(0.0f));\n    c = SEL(c > {low}.0f, c, K({low}.0f));\n"
            f"    c = SEL(c < {high}.0f, c, K({high}.0f));\n    *r = FTOI(c);\n"
        )
    limits = f", limited to those of {'u' * (target[0] == 'u')}int{target[1:]}_t" if target else ""
    head = f"/* *r = *v as integers{limits}; 0 where it is NaN. */\n"
    head += f"{_VECTOR_FUNCTION}@{kind}_{short}(const {short} *v, {ints} *r)\n{{\n"
    return f"{head}    const {short} x = *v;\n{instantiated(body, short)}}}\n"
