"""Printer state for one kernel: names, storage of buffers, and the preamble snippets that it needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

import tvm_ffi
from tvm import sym

from edgetune.codegen.branch_shares import Iterations
from edgetune.codegen.dtypes import Element
from edgetune.codegen.lines import JoinableCall, Line, constant, joinable
from edgetune.codegen.names import Names
from edgetune.codegen.text import Code, Text
from edgetune.codegen.work import SnippetName
from edgetune.target.isa.vector_instructions import VectorInstructions
from edgetune.tvm_types import Expr, TvmBuffer, Var

Scales = Literal["", "shift", "table", "byte table"]
"""Of a constant that scales: all of it shifts by 2 bits or more, and it has factors (see `scale_tables.py`)."""


@dataclass
class BufferStorage:
    """Where a buffer lives. If `lanes` > 1, its TIR elements are vectors, but its C array is still flat.

    `registers` maps the first element of a piece to (variable, number of elements); None for buffers in memory. `tile`
    has its place in a tile, as the ending of a name ("_0_1": row 0, column 1). `scales` is for constants that scale.
    """

    name: Code
    of: Element
    lanes: int
    registers: dict[int, tuple[Code, int]] | None = None
    tile: dict[int, str] = field(default_factory=dict)
    written: bool = False
    scales: Scales = ""
    offset: Expr = None  # in elements, as a TIR expression; None means no offset


@dataclass(frozen=True)
class CallResult:
    """What a call gives for lanes [first, first + width), and the variable that holds it."""

    call: Expr
    first: int
    width: int
    name: Code


@dataclass
class Context:
    """State while one kernel is printed. Statements go to `lines`; an expression may emit statements before itself."""

    has_float16: bool  # the compiler has _Float16
    lanes_limit: int  # elements of the widest value type in one native vector; 1 without vectors
    names: Names
    vector_bits: int = 0  # of one native vector; 0 without vectors
    places: dict[TvmBuffer, BufferStorage] = field(default_factory=dict)
    packed: set[TvmBuffer] = field(default_factory=set)  # constants whose layout the schedule chose: aligned
    symmetric: set[TvmBuffer] = field(default_factory=set)  # constants of bytes without -128 (see `SYMMETRIC_BYTES`)
    counters: set[TvmBuffer] = field(default_factory=set)  # in registers, that hold indices (see `Survey.counters`)
    numbers: set[TvmBuffer] = field(default_factory=set)  # that never hold NaN (see `Survey.numbers`)
    vectors: VectorInstructions = field(default_factory=VectorInstructions)  # those of the target
    variables: dict[Var, Text | list[tuple[int, int, Code]] | Expr] = field(default_factory=dict)
    stems: dict[Var, str] = field(default_factory=dict)  # clearer names for some TIR variables
    preamble: set[str] = field(default_factory=set)
    lines: list[Line] = field(default_factory=list)
    depth: int = 1
    place: str = ""  # of the part that is printed in its tile, as the ending of a name
    result: tuple[Expr, str] | None = None  # the value that is being stored, and the name of a variable that holds it
    shared: dict[str, Code] = field(default_factory=dict)  # names of constants in scope, by their C text
    results: list[CallResult] | None = None  # of calls in the value that is being stored
    analyzer: sym.Analyzer = field(default_factory=sym.Analyzer)
    iterations: Iterations = field(default_factory=Iterations)

    def emit(self, line: Line) -> None:
        """Append a line of C at the current indentation."""
        self.lines.append(replace(line, depth=self.depth))

    def temporary(self, c_type: str, value: object, stem: str, e: Expr = None) -> Code:
        """Emit `const c_type name = value;` and return the name (see `local`)."""
        name = self.local(stem, e)
        self.emit(constant(c_type, name, value))
        return name

    def call_of_vector(self, function: str, kind: str, *variables: Code, numbers: tuple[int, ...] = ()) -> None:
        """Append the call of a function of a vector of type `kind` (f32x8) that may be one with calls of others."""
        made = JoinableCall(function, kind, variables, numbers)
        self.emit(joinable(self.need(made.snippet), made))

    def result_of(self, call: Expr, first: int, width: int) -> Code | None:
        """The variable that holds these lanes of an equal call, if the value that is being stored has it already."""
        known = (one for one in self.results or () if (one.first, one.width) == (first, width))
        return next((one.name for one in known if tvm_ffi.structural_equal(one.call, call)), None)

    def local(self, role: str, e: Expr = None) -> Code:
        """A name for a variable that holds `e`: that of the result if `e` is all that is stored, else one by `role`."""
        if self.result is not None and e is not None and e.same_as(self.result[0]):
            return self.names.unique(self.result[1])
        return self.names.unique(f"{role}{self.place}")

    @contextmanager
    def indented(self) -> Iterator[None]:
        """Lines emitted inside are one level deeper."""
        self.depth += 1
        outer, self.shared = self.shared, dict(self.shared)
        try:
            yield
        finally:
            self.depth -= 1
            self.shared = outer

    @contextmanager
    def captured(self) -> Iterator[list[Line]]:
        """Lines emitted inside go to the yielded list instead."""
        outer, self.lines = self.lines, []
        known, self.shared = self.shared, dict(self.shared)
        results = self.results
        self.results = None if results is None else list(results)
        try:
            yield self.lines
        finally:
            self.lines, self.shared, self.results = outer, known, results

    def need(self, snippet: str) -> str:
        """Request a preamble snippet by name ("max:f32") and return the C name that it defines.

        That of a type is f32x8; that of a function is marked, as @max_f32 (see `edgetune.codegen.package_names`).
        """
        self.preamble.add(snippet)
        kind, _, rest = snippet.partition(":")
        return rest if kind == "type" else SnippetName.of(f"@{kind}_{rest}", snippet)

    def need_macro(self, snippet: str) -> str:
        """Like `need`, for a snippet that defines a macro: ET_MAC_i32x16 of "mac:i32x16"."""
        self.preamble.add(snippet)
        kind, _, rest = snippet.partition(":")
        return SnippetName.of(f"ET_{kind.upper()}_{rest}", snippet)
