"""Far lanes: elements of a vector for which a polynomial does not serve, as the sine of 1e9. libm computes them.

They are rare. A test of the whole vector, or of several, branches to a function that is not inlined.
"""

from __future__ import annotations

import re

from edgetune.codegen.vector_snippets import either, instructions, lanes_of

_STEP = re.compile(r"    FAR\((\w+), \$(\w+), \$(\w+), \$(\w+)\);")


def far_steps(step: str, short: str, count: int = 0) -> list[str]:
    """The lines of a step FAR(f, b, v, w) for one vector of type `short`, or `count` of them; none for another step."""
    found = _STEP.match(step)
    if found is None:
        return []
    name, beyond, of, to = found.groups()
    endings = [str(number) for number in range(count)] or [""]
    ints = f"i{short[1:]}"
    lines = [f"    const {ints} {beyond} = {' | '.join(f'{beyond}{one}' for one in endings)};"] if count else []
    lines.append(f"    if (@any_negative_{ints}(&{beyond})) {{")
    for one in endings:  # copies, so that the vectors themselves need no place in memory
        lines.append(f"        const {short} far{one} = {of}{one};")
        lines.append(f"        {short} found{one} = {to}{one};")
        lines.append(f"        @far_{name}_{short}(&far{one}, &found{one});")
        lines.append(f"        {to}{one} = found{one};")
    return [*lines, "    }"]


def far_function(name: str, short: str) -> str:
    """`void @far_sin_f32x16(const f32x16 *x, f32x16 *y)`: libm's function of lanes beyond 8192."""
    return (
        f"/* The C library's {name} of lanes beyond 8192, infinite or NaN. */\n"
        f"static __attribute__((noinline, cold)) void @far_{name}_{short}(const {short} *x, {short} *y)\n{{\n"
        f"    for (int lane = 0; lane < {lanes_of(short)}; ++lane) {{\n"
        f"        const float one = (*x)[lane];\n"
        f"        if (!(__builtin_fabsf(one) <= 8192.0f)) (*y)[lane] = __builtin_{name}f(one);\n    }}\n}}\n"
    )


def any_negative(rest: str) -> str:
    """`int @any_negative_i32x16(const i32x16 *)`: whether a lane is negative."""
    lanes = lanes_of(rest)
    found = instructions(lambda isa: isa.signs, lanes)
    choices = [(one.condition(), one.code()) for one in found]
    plain = (
        f"    const union {{ {rest} lanes; int64_t pairs[{lanes // 2}]; }} all = {{*v}};\n"
        f"    return (({' | '.join(f'all.pairs[{place}]' for place in range(lanes // 2))}) "
        "& -INT64_C(0x7fffffff80000000)) != 0;\n"
    )
    head = (
        "/* Whether a lane is negative. */\n"
        f"static inline __attribute__((always_inline)) int @any_negative_{rest}(const {rest} *v)\n{{\n"
    )
    return f"{head}{either(choices, plain)}}}\n"
