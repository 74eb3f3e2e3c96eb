"""The preamble of a kernels file: the vector types and snippets that its kernels name, each once, nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial

from edgetune.codegen import (
    barriers,
    dot_snippets,
    far_lanes,
    horizontal_snippets,
    lane_window_snippets,
    narrowing_snippets,
    neighbour_snippets,
    polynomial_functions,
    polynomials,
    transposition_snippets,
    turn_snippets,
    vector_snippets,
)
from edgetune.codegen.dtypes import by_short, storage_type
from edgetune.codegen.multiply_add import multiply_add, multiply_add_halves
from edgetune.codegen.package_names import with_prefix
from edgetune.codegen.scalar_snippets import scalar_snippet
from edgetune.target.target import Target

_CONVERTERS = ("whole", "saturated_i8", "saturated_u8", "saturated_i16", "saturated_u16", "saturated_i32")

_SCALED = {
    **dict.fromkeys(("scaled_i8", "scaled_u8"), "fixed_point_scale_down"),
    **dict.fromkeys(("scaled_once_i8", "scaled_once_u8"), "fixed_point_scale_once"),
    **dict.fromkeys(("scaled_by_i8", "scaled_by_u8"), "fixed_point_scale_by"),
    **dict.fromkeys(("scaled_little_i8", "scaled_little_u8"), "fixed_point_scale_little"),
}
"""Functions that limit what another one scales."""


def _vector_type(name: str, has_float16: bool) -> str:
    loose = name.endswith("u")
    short, _, lanes = name.rstrip("u").partition("x") if loose else name.partition("x")
    of = by_short(short)
    size = of.bytes * int(lanes)
    more = f", aligned({of.bytes}), may_alias" if loose else ""
    typedef = f"typedef {storage_type(of, has_float16)} @{name} __attribute__((vector_size({size}){more}));\n"
    return f"{typedef}#define {name} @{name}\n"


def _mac_types(rest: str) -> list[str]:
    lanes = int(rest.partition("x")[2])
    return [f"type:{rest}", f"type:u32x{lanes}", f"type:i16x{2 * lanes}"]


def _named(function: Callable[[str], str], rest: str) -> list[str]:
    """The types in the text of a function."""
    return vector_snippets.types_in(function(rest))


def _extreme_types(rest: str) -> list[str]:
    element, _, lanes = rest.partition("x")
    return [f"type:{rest}", f"type:i{by_short(element).bits}x{lanes}"]


def _plain_extreme(word: str, rest: str) -> list[str]:
    return [f"v{word}:{rest}"]


def _kept_type(rest: str) -> list[str]:
    return ["order:all"] if rest == "f32" else [f"type:{rest}", "order:all"]


def _each_needs(name: str, rest: str) -> list[str]:
    short = rest.rpartition("x")[0]
    inner = [f"{polynomials.NEEDS[name]}_each:{rest}"] if name in polynomials.NEEDS else []
    own = [*polynomials.extremes(name, short), *polynomials.far_lanes(name, short)]
    return [f"macros:{short}", f"keep:{short}", *own, *inner]


def _macro_types(rest: str) -> list[str]:
    return [] if rest == "f32" else [f"type:{rest}", f"type:i{rest[1:]}"]


def _loads_need(rest: str) -> list[str]:
    return [f"shuffle_two:{rest}", f"type:{rest}u"]


_SHORT_NAME = re.compile(r"^#define ((?!__)\w+)", re.MULTILINE)

# GCC 9, the oldest version with the vector built-ins used, has no __has_builtin.
_ASKING = "#ifndef __has_builtin\n#define __has_builtin(name) 0\n#endif\n"

_BY_TEXT: dict[str, Callable[[str], str]] = {
    "widen_halves": vector_snippets.widen_halves,
    "from_half": vector_snippets.from_half,
    "to_half": vector_snippets.to_half,
    "nearest": narrowing_snippets.nearest,
    "narrowed": narrowing_snippets.narrowed,
    "narrowed_each": narrowing_snippets.narrowed_each,
    "mac_halves": multiply_add_halves,
    "dot_twice_i8_i8_2": dot_snippets.twice,
    "lane_pairs": dot_snippets.lane_pairs,
    "widen_word": vector_snippets.widen_word,
    "joined": neighbour_snippets.joined,
    "limited_i8": neighbour_snippets.limited,
    "low_bytes": neighbour_snippets.low_bytes,
    "low_bytes_apart": neighbour_snippets.low_bytes_apart,
    "widen_apart": neighbour_snippets.widen_apart,
    **{name: partial(dot_snippets.lane_products, size) for name, size in dot_snippets.windows().items()},
    **{name: partial(dot_snippets.function, name) for name in dot_snippets.FORMS},
}
"""Functions that require the types in their texts alone."""

_TILES = dot_snippets.tiles()
"""Functions for tiles of dot products, which require that for one as well."""


def _tile(name: str, rest: str) -> str:
    return dot_snippets.tile(*_TILES[name], rest)


def _tile_needs(name: str, rest: str) -> list[str]:
    return [*vector_snippets.types_in(_tile(name, rest)), f"{_TILES[name][0]}:{rest}"]


_LANE_WINDOWS = lane_window_snippets.sizes()
"""Functions for windows, which require the one that scales a sum."""


def _lane_window(name: str, rest: str) -> str:
    return lane_window_snippets.window(_LANE_WINDOWS[name], rest)


def _lanes_scaled(kind: str, rest: str) -> list[str]:
    return [f"type:{rest}", f"{neighbour_snippets.function_of_lane(kind)}:i32"]


# By kind of snippet: the snippets it requires, and its text; both depend on what follows the colon in its name.
_VECTOR: dict[str, tuple[Callable[[str], list[str]], Callable[[str], str]]] = {
    "macros": (_macro_types, polynomial_functions.macros),
    "order": (lambda _: [], lambda _: barriers.ORDER),
    "keep": (_kept_type, barriers.keep),
    **{
        f"{name}_each": (partial(_each_needs, name), partial(polynomial_functions.function_of_each, name))
        for name in polynomials.BODIES
    },
    **{
        f"far_{name}": (lambda rest: [f"type:{rest}"], partial(far_lanes.far_function, name)) for name in ("sin", "cos")
    },
    "any_negative": (lambda rest: [f"type:{rest}", f"type:f{rest[1:]}"], far_lanes.any_negative),
    "chars": (lambda _: [], lambda _: vector_snippets.CHARS),
    "widen": (vector_snippets.needed_types, vector_snippets.widen),
    "narrow": (vector_snippets.needed_types, vector_snippets.narrow),
    "mac": (_mac_types, multiply_add),
    **{name: (partial(_named, function), function) for name, function in _BY_TEXT.items()},
    **{name: (partial(_tile_needs, name), partial(_tile, name)) for name in _TILES},
    **{
        f"vscale_{kind}": (partial(_lanes_scaled, kind), partial(neighbour_snippets.scaled, kind))
        for kind in neighbour_snippets.SCALES
    },
    **{name: (lambda rest: [f"scaled_little_{rest}:i32"], partial(_lane_window, name)) for name in _LANE_WINDOWS},
    **{word: (_macro_types, partial(vector_snippets.rounding, word)) for word in sorted(vector_snippets.ROUNDINGS)},
    "sqrt": (lambda rest: [f"type:{rest}"], vector_snippets.square_root),
    "every_second": (lambda rest: [*_macro_types(rest), f"type:{rest}u"], vector_snippets.every_second),
    "pairs": (_loads_need, vector_snippets.pairs),
    "backwards": (_loads_need, vector_snippets.backwards),
    "every_third": (_loads_need, vector_snippets.every_third),
    "every_fourth": (_loads_need, vector_snippets.every_fourth),
    "take_turns": (turn_snippets.turns_need, turn_snippets.take_turns),
    **{
        kind: (partial(transposition_snippets.needed, kind), partial(transposition_snippets.function, kind))
        for kind in transposition_snippets.KINDS
    },
    "put": (lambda rest: [f"type:{rest}u"], transposition_snippets.put),
    "shuffle_two": (lambda rest: [f"type:{rest}", f"type:i{rest[1:]}"], transposition_snippets.shuffle_two),
    "columns": (transposition_snippets.columns_need, transposition_snippets.columns),
    "halves": (transposition_snippets.halves_need, transposition_snippets.halves),
    "turn": (transposition_snippets.types_needed, transposition_snippets.turn),
    "turn_quads": (transposition_snippets.types_needed, transposition_snippets.turn_quads),
    "vmax": (_extreme_types, partial(vector_snippets.min_max, "max")),
    "vmin": (_extreme_types, partial(vector_snippets.min_max, "min")),
    **{
        f"v{word}_{kind}": (partial(_plain_extreme, word), partial(function, word))
        for word in ("max", "min")
        for kind, function in (("bound", vector_snippets.bounded), ("running", vector_snippets.running))
    },
    **{
        f"v{name}": (
            lambda rest: [f"type:{rest}", *(f"type:{of}{rest.removeprefix('i32')}" for of in ("u32", "i64"))],
            function,
        )
        for name, function in (
            ("fixed_point_scale", vector_snippets.fixed_point_scale),
            ("fixed_point_scale_once", vector_snippets.fixed_point_scale_once),
        )
    },
    "vmaximum": (lambda rest: [f"vmax:{rest}"], partial(vector_snippets.extreme_or_nan, "maximum")),
    "vminimum": (lambda rest: [f"vmin:{rest}"], partial(vector_snippets.extreme_or_nan, "minimum")),
    **{
        f"lanes_{word}": (
            partial(horizontal_snippets.needed, word),
            partial(horizontal_snippets.lanes_function, word),
        )
        for word in ("sum", "largest", "smallest")
    },
    **{
        f"lanes_{word}_each": (
            partial(horizontal_snippets.each_needed, word),
            partial(horizontal_snippets.lanes_each_function, word),
        )
        for word in ("sum", "largest", "smallest")
    },
}


def _requirements(snippet: str) -> list[str]:
    """Snippets that must directly precede this one."""
    kind, _, rest = snippet.partition(":")
    if kind in polynomials.BODIES and rest != "f64":
        inner = [f"{polynomials.NEEDS[kind]}:{rest}"] if kind in polynomials.NEEDS else []
        bits = polynomials.reinterpretations(kind) if rest == "f32" else []
        own = [*polynomials.extremes(kind, rest), *polynomials.far_lanes(kind, rest)]
        return [*bits, *own, f"macros:{rest}", f"keep:{rest}", *inner]
    if kind in _CONVERTERS:
        return [f"macros:{rest}"]
    if kind in _SCALED:
        return [f"{_SCALED[kind]}:{rest}"]
    return _VECTOR[kind][0](rest) if kind in _VECTOR else []


def _text(snippet: str, has_float16: bool) -> str:
    kind, _, rest = snippet.partition(":")
    if kind == "type":
        return _vector_type(rest, has_float16)
    if kind in polynomials.BODIES and rest != "f64":
        return polynomial_functions.function(kind, rest)
    if kind in _CONVERTERS:
        return polynomial_functions.converter(kind, rest)
    return _VECTOR[kind][1](rest) if kind in _VECTOR else scalar_snippet(kind, rest, has_float16)


def _rank(snippet: str) -> tuple[int, str]:
    kind = snippet.partition(":")[0]
    return (0 if kind == "type" else 1 if kind in ("order", "keep", "chars", "macros", "reinterpret") else 2, snippet)


def render_preamble(names: Iterable[str], target: Target, prefix: str) -> str:
    """C text of the snippets `names` and all that they need, in a fixed order; includes nothing.

    It contains only typedefs and static functions, all with the package's own `prefix`, and macros: the names of its
    types without the prefix, and `ET_*`. Where the file ends with an #undef of each (see `short_names`), files of two
    packages can be parts of one translation unit. Raises KernelFailed if no snippet has one of the names.
    """
    ordered: list[str] = []
    placed: set[str] = set()

    def place(snippet: str) -> None:
        if snippet in placed:
            return
        placed.add(snippet)
        for needed in _requirements(snippet):
            place(needed)
        ordered.append(snippet)

    for snippet in sorted(set(names), key=_rank):
        place(snippet)
    ordered = [s for s in ordered if s.startswith("type:")] + [s for s in ordered if not s.startswith("type:")]
    if not ordered:
        return ""
    heading = (
        f"/* Types and functions that the kernels of {prefix} use. Names without its prefix end with this file. */\n"
    )
    text = "".join(_text(snippet, target.has_float16) for snippet in ordered)
    return heading + (_ASKING if "__has_builtin" in text else "") + with_prefix(text, prefix)


def short_names(preamble: str) -> list[str]:
    """The macros of a preamble, each once, in order: their names have no prefix, so they must end with the file."""
    return list(dict.fromkeys(_SHORT_NAME.findall(preamble)))
