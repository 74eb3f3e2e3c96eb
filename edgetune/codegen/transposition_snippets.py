"""C of transpositions: functions of the preamble that turn squares of vectors in registers.

All compute to[i * to_row + j] = from[j * from_row + i] for i below `rows` and j below `columns`. `transpose` is for
rows and columns of a vector or more, and so is `transpose_runs`, where the rows of the result share sets of the cache;
`split_rows` is for fewer rows, `join_rows` for fewer columns; `split_quads` and `join_quads` for at most four of them
in vectors of eight. Of these, a vector is longer than a row: it reads into the rows that follow, or spills into them
before they are written. `columns` leaves four columns in registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgetune.codegen.vector_snippets import either, instructions, lanes_of

_INLINE = "static inline __attribute__((always_inline)) void "
KINDS = ("transpose", "transpose_runs", "split_rows", "join_rows", "split_quads", "join_quads")

_FEWEST = 4
"""Lanes of the smallest squares."""

RUN = 128
"""Columns of a run: so many rows of at most 64 elements fill an L1 of 32 KiB."""


def needed(kind: str, rest: str) -> list[str]:
    """Snippets that the function of a kind needs."""
    turn = f"turn_quads:{rest}" if kind.endswith("quads") else f"turn:{rest}"
    more = {"transpose": ["min:i32"], "join": [f"put:{rest}"]}.get(kind.partition("_")[0], [])
    return [turn, f"type:{rest}u", *more]


def types_needed(rest: str) -> list[str]:
    """Snippets that `turn` and `turn_quads` need."""
    return [f"type:{rest}", f"type:i{rest[1:]}", f"shuffle_two:{rest}"]


def function(kind: str, rest: str) -> str:
    """The function `@kind_f32x8(float *to, int32_t to_row, const float *from, int32_t from_row, rows, columns)`."""
    lanes = int(rest.partition("x")[2])
    width = kind.partition("_")[2]
    bodies = {"transpose": _runs if width == "runs" else _squares, "split": _split, "join": _join}
    body = bodies[kind.partition("_")[0]](rest, lanes, width == "quads")
    how = _COMMENTS[kind.partition("_")[0]].format(n=lanes)
    comment = f"/* to[i * to_row + j] = from[j * from_row + i] for i < rows and j < columns,\n   {how} */\n"
    name = f"{_INLINE}@{kind}_{rest}("
    parameters = "float *restrict to, int32_t to_row, const float *restrict from, int32_t from_row,"
    return f"{comment}{name}\n    {parameters} int32_t rows, int32_t columns)\n{{\n{body}}}\n"


_COMMENTS = {
    "transpose": "in squares of {n} by {n}, of which the last ones overlap.",
    "split": "{n} short rows at once, each read with what follows it.",
    "join": "{n} short rows at once; what is left over spills into rows that are written later.",
}


def _squares(rest: str, lanes: int, _quads: bool) -> str:
    # Lines of `from` are read whole before they leave the cache: two squares of eight rows are one line. A store of
    # sixteen lanes is a line of `to`, so more rows may lie between two stores to the same one.
    if lanes == _FEWEST:
        return _pairs_of_squares(rest, lanes)
    block = 2 * lanes if lanes <= 8 else 4 * lanes
    return f"""{_few(lanes)}    for (int32_t block = 0; block < rows; block += {block}) {{
        for (int32_t column = 0; column < columns; column += {lanes}) {{
            const int32_t j = @min_i32(column, columns - {lanes});
            for (int32_t row = block; row < @min_i32(block + {block}, rows); row += {lanes}) {{
                const int32_t i = @min_i32(row, rows - {lanes});
{_square(rest, lanes, 16)}
            }}
        }}
    }}
"""


def _pairs_of_squares(rest: str, lanes: int) -> str:
    """Two squares at a time: finding the places takes as long as a square of so few lanes."""
    squares = {"a": "i", "b": "k"}
    loads = {
        name: _listed([f"*(const {rest}u *)&in[{_plus(_times(row, 'from_row'), first)}]" for row in range(lanes)], 16)
        for name, first in squares.items()
    }
    arrays = "\n".join(
        f"            {rest} {name}[{lanes}] = {{\n{text}\n            }};" for name, text in loads.items()
    )
    turns = " ".join(f"@turn_{rest}({name});" for name in squares)
    stores = [
        f"*({rest}u *)&out[{f'({first} + {row})' if row else first} * to_row] = {name}[{row}];"
        for name, first in squares.items()
        for row in range(lanes)
    ]
    return f"""{_few(lanes)}    for (int32_t block = 0; block < rows; block += {2 * lanes}) {{
        const int32_t i = @min_i32(block, rows - {lanes}), k = @min_i32(block + {lanes}, rows - {lanes});
        for (int32_t column = 0; column < columns; column += {lanes}) {{
            const int32_t j = @min_i32(column, columns - {lanes});
            const float *restrict const in = &from[j * from_row];
            float *restrict const out = &to[j];
{arrays}
{_lines([turns, *stores], 12)}
        }}
    }}
"""


def _runs(rest: str, lanes: int, _quads: bool) -> str:
    # Few lines of `to` are open at once, each until it is full. Sixteen rows are whole lines of `from`, and those of a
    # run stay in L1 if `from` has short rows.
    return f"""{_few(lanes)}    for (int32_t block = 0; block < rows; block += 16) {{
        for (int32_t run = 0; run < columns; run += {RUN}) {{
            for (int32_t row = block; row < @min_i32(block + 16, rows); row += {lanes}) {{
                const int32_t i = @min_i32(row, rows - {lanes});
                for (int32_t column = run; column < @min_i32(run + {RUN}, columns); column += {lanes}) {{
                    const int32_t j = @min_i32(column, columns - {lanes});
{_square(rest, lanes, 20)}
                }}
            }}
        }}
    }}
"""


def _few(lanes: int) -> str:
    """A loop over single elements where rows or columns do not fill a vector, as in the share of a thread."""
    return f"""    if (rows < {lanes} || columns < {lanes}) {{
        for (int32_t i = 0; i < rows; i++) {{
            for (int32_t j = 0; j < columns; j++) to[i * to_row + j] = from[j * from_row + i];
        }}
        return;
    }}
"""


def _square(rest: str, lanes: int, indent: int) -> str:
    """One square, from row i and column j on."""
    loads = _listed([_load(rest, "in", _times(row, "from_row")) for row in range(lanes)], indent + 4)
    stores = [f"*({rest}u *)&out[{_times(row, 'to_row')}] = v[{row}];" for row in range(lanes)]
    first = [
        "const float *restrict const in = &from[j * from_row + i];",
        "float *restrict const out = &to[i * to_row + j];",
    ]
    begun = _lines([*first, f"{rest} v[{lanes}] = {{"], indent)
    return f"{begun}\n{loads}\n{_lines(['};', f'@turn_{rest}(v);', *stores], indent)}"


def _split(rest: str, lanes: int, quads: bool) -> str:
    values = [_load(rest, "in", _times(row, "from_row")) for row in range(lanes)]
    low = ", ".join(map(str, [*range(4), *range(lanes, lanes + 4)]))
    pairs = [f"v[{row}] = ET_JOIN_{rest}(v[{row}], v[{row + 4}], {low});" for row in range(4)] if quads else []
    turn = f"@turn_quads_{rest}(v);" if quads else f"@turn_{rest}(v);"
    outputs = range(4 if quads else lanes - 1)
    stores = [f"if ({row} < rows) *({rest}u *)&to[{_plus(_times(row, 'to_row'), 'j')}] = v[{row}];" for row in outputs]
    return f"""    const int32_t elements = (columns - 1) * from_row + rows; /* of `from` */
    int32_t whole = columns - columns % {lanes};
    if (whole > 0 && (whole - 1) * from_row + {lanes} > elements) whole -= {lanes};
    for (int32_t j = 0; j < whole; j += {lanes}) {{
        const float *restrict const in = &from[j * from_row];
        {rest} v[{lanes}] = {{
{_listed(values, 12)}
        }};
{_lines([*pairs, turn, *stores], 8)}
    }}
    for (int32_t j = whole; j < columns; j++) {{
        for (int32_t i = 0; i < rows; i++) to[i * to_row + j] = from[j * from_row + i];
    }}
"""


def _join(rest: str, lanes: int, quads: bool) -> str:
    inputs = range(4 if quads else lanes)
    values = [f"{row} < columns ? ({rest}){_load(rest, 'in', _times(row, 'from_row'))} : zero" for row in inputs]
    high = ", ".join(map(str, [*range(4, 8), *range(4, 8)]))
    halves = [f"v[{row + 4}] = ET_JOIN_{rest}(v[{row}], v[{row}], {high});" for row in range(4)] if quads else []
    turn = f"@turn_quads_{rest}(v);" if quads else f"@turn_{rest}(v);"
    stores = [f"@put_{rest}(out, {row}, columns, &v[{row}]);" for row in range(lanes)]
    return f"""    const {rest} zero = {{0}};
    const int32_t whole = to_row == columns ? rows - rows % {lanes} : 0;
    for (int32_t i = 0; i < whole; i += {lanes}) {{
        const float *restrict const in = &from[i];
        float *restrict const out = &to[i * columns];
        {rest} v[{lanes}] = {{
{_listed(values, 12)}
        }};
{_lines([turn, *halves, *stores], 8)}
    }}
    for (int32_t i = whole; i < rows; i++) {{
        for (int32_t j = 0; j < columns; j++) to[i * to_row + j] = from[j * from_row + i];
    }}
"""


def put(rest: str) -> str:
    """`void @put_f32x8(float *block, int32_t row, int32_t columns, const f32x8 *v)`: a row of a block of eight."""
    lanes = int(rest.partition("x")[2])
    return f"""/* Stores row `row` of {lanes} rows of a block, without what would lie past its end. */
{_INLINE}@put_{rest}(float *block, int32_t row, int32_t columns, const {rest} *v)
{{
    if (row * columns + {lanes} <= {lanes} * columns) {{
        *({rest}u *)&block[row * columns] = *v;
        return;
    }}
    for (int32_t j = 0; j < columns; j++) block[row * columns + j] = (*v)[j];
}}
"""


def columns_need(rest: str) -> list[str]:
    """Snippets that `columns` needs."""
    return [f"turn_quads:{rest}", *([] if rest == "f32x4" else [f"halves:{rest}"]), "type:f32x4u"]


def columns(rest: str) -> str:
    """`void @columns_f32x8(const float *p, int32_t row, f32x8 *v)`: v[j] = p[j], p[row + j], p[2 * row + j], .."""
    lanes = lanes_of(rest)
    rows = ["p" if number == 0 else f"p + {'' if number == 1 else f'{number} * '}row" for number in range(lanes)]
    if lanes == 4:
        loads = [f"v[{number}] = *(const f32x4u *)({row});" for number, row in enumerate(rows)]
    else:
        loads = [f"@halves_{rest}({rows[number]}, {rows[number + 4]}, &v[{number}]);" for number in range(4)]
    lines = "".join(f"    {line}\n" for line in [*loads, f"@turn_quads_{rest}(v);"])
    return (
        f"/* v[j]: element j of {lanes} rows that begin `row` elements apart, for j below four. */\n"
        f"{_INLINE}@columns_{rest}(const float *p, int32_t row, {rest} *v)\n{{\n{lines}}}\n"
    )


def halves_need(rest: str) -> list[str]:
    """Snippets that `halves` needs."""
    return [f"type:{rest}", "type:f32x4", "type:f32x4u"]


def halves(rest: str) -> str:
    """`void @halves_f32x8(const float *low, const float *high, f32x8 *v)`: four elements from each of two places.

    GCC 12 makes two loads and a shuffle of `__builtin_shufflevector`, where an instruction could load and insert.
    """
    lanes = lanes_of(rest)
    choices = [(one.condition(), one.code()) for one in instructions(lambda isa: isa.halves, lanes)]
    places = ", ".join(map(str, range(lanes)))
    both = "*(const f32x4u *)low, *(const f32x4u *)high"
    choices.append(("__has_builtin(__builtin_shufflevector)", f"*v = __builtin_shufflevector({both}, {places});"))
    plain = ", ".join(f"{half}[{lane}]" for half in ("low", "high") for lane in range(lanes // 2))
    text = either(choices, f"    *v = ({rest}){{{plain}}};\n")
    comment = "/* *v = low[0], low[1], .., high[0], high[1], .. */\n"
    return f"{comment}{_INLINE}@halves_{rest}(const float *low, const float *high, {rest} *v)\n{{\n{text}}}\n"


def _times(number: int, distance: str) -> str:
    return "0" if number == 0 else distance if number == 1 else f"{number} * {distance}"


def _plus(place: str, more: str) -> str:
    return more if place == "0" else f"{place} + {more}"


def _load(rest: str, name: str, place: str) -> str:
    return f"*(const {rest}u *)&{name}[{place}]"


def _listed(values: Sequence[str], indent: int) -> str:
    return ",\n".join(f"{' ' * indent}{value}" for value in values)


def _lines(statements: Sequence[str], indent: int) -> str:
    return "\n".join(f"{' ' * indent}{one}" for one in statements)


def shuffle_two(rest: str) -> str:
    """The macro `ET_JOIN_f32x8(a, b, ...)`: a vector of the lanes of two others that the numbers name."""
    ints = f"i{rest[1:]}"
    return (
        f"#if __has_builtin(__builtin_shufflevector)\n"
        f"#define ET_JOIN_{rest}(a, b, ...) __builtin_shufflevector((a), (b), __VA_ARGS__)\n"
        f"#else\n#define ET_JOIN_{rest}(a, b, ...) __builtin_shuffle((a), (b), ({ints}){{__VA_ARGS__}})\n#endif\n"
    )


def turn(rest: str) -> str:
    """`void @turn_f32x8(f32x8 *v)`: row i of a square becomes column i."""
    lanes = int(rest.partition("x")[2])
    return _turned(f"/* Row i of {lanes} rows becomes column i. */\n", "turn", rest, lanes)


def turn_quads(rest: str) -> str:
    """`void @turn_quads_f32x8(f32x8 *v)`: row i of four rows becomes column i, in both halves of the vectors."""
    return _turned("/* Row i of four rows becomes column i, in each half. */\n", "turn_quads", rest, 4)


def _turned(comment: str, name: str, rest: str, rows: int) -> str:
    """Pairs of vectors are interleaved by elements, by pairs of elements, then by halves."""
    lanes = int(rest.partition("x")[2])
    text = f"{comment}{_INLINE}@{name}_{rest}({rest} *v)\n{{\n"
    names = [f"v[{row}]" for row in range(rows)]
    distance, letter = 1, "a"
    while distance < rows:
        low, high = _places(lanes, distance)
        new = list(names)
        for row in range(rows):
            if row & distance:
                continue
            pair = f"{names[row]}, {names[row + distance]}"
            for at, places in ((row, low), (row + distance, high)):
                new[at] = f"{letter}{at}"
                text += f"    const {rest} {new[at]} = ET_JOIN_{rest}({pair}, {', '.join(map(str, places))});\n"
        names, distance, letter = new, distance * 2, chr(ord(letter) + 1)
    text += "".join(f"    v[{column}] = {names[row]};\n" for column, row in enumerate(_order(rows)))
    return f"{text}}}\n"


def _places(lanes: int, distance: int) -> tuple[list[int], list[int]]:
    """Places of the shuffles that join two vectors: within each four lanes, or of every second four."""
    if distance >= 4:
        first = [quad + lane for quad in range(0, 2 * lanes, 8) for lane in range(4)]
        return first, [place + 4 for place in first]
    low: list[int] = []
    high: list[int] = []
    for quad in range(0, lanes, 4):
        a, b = [quad + lane for lane in range(4)], [lanes + quad + lane for lane in range(4)]
        if distance == 1:
            low += [a[0], b[0], a[1], b[1]]
            high += [a[2], b[2], a[3], b[3]]
        else:
            low += [*a[:2], *b[:2]]
            high += [*a[2:], *b[2:]]
    return low, high


def _order(lanes: int) -> list[int]:
    """The vector that holds each column after all rounds."""
    values = [[(row, lane) for lane in range(lanes)] for row in range(lanes)]
    distance = 1
    while distance < lanes:
        low, high = _places(lanes, distance)
        new = list(values)
        for row in range(lanes):
            if not row & distance:
                both = values[row] + values[row + distance]
                new[row], new[row + distance] = [both[p] for p in low], [both[p] for p in high]
        values, distance = new, distance * 2
    return [next(row for row in range(lanes) if values[row][0] == (0, column)) for column in range(lanes)]
