"""Lines of C as objects: what a line writes and what it is, so that later passes need not read C again."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from edgetune.codegen.text import INDENT, Address, Code, Lvalue, Text, added, code, listed
from edgetune.codegen.work import STORE, VECTOR_STORE, kind_of


class LineKind(Enum):
    """What a line is."""

    STATEMENT = auto()  # without control flow, of at most one variable that is declared
    OPENS = auto()  # a loop or a condition
    OTHERWISE = auto()  # the other branch of a condition
    CLOSES = auto()  # a brace
    UNROLLS = auto()  # the loop in the next line
    ALIASES = auto()  # declares a second name of a place in memory
    OTHER = auto()


@dataclass(frozen=True)
class Declared:
    """A variable without a first value, or an array of `count` elements."""

    c_type: str
    name: Code
    count: int | None = None


@dataclass(frozen=True)
class JoinableCall:
    """A call for one vector that may be one with others: `@log_f32x8(&logarithm);`; `kind` is its type.

    `numbers` come before the addresses of the `variables`, and all calls that are one have the same. After these come
    addresses from which it only reads, its `sources`; `places` are what lies there.
    """

    function: str
    kind: str
    variables: tuple[Code, ...]
    numbers: tuple[int, ...] = ()
    sources: tuple[Code, ...] = ()
    places: tuple[Lvalue, ...] = ()

    @property
    def snippet(self) -> str:
        """The snippet of the preamble that is called."""
        return f"{self.function}:{self.kind}"

    def joins(self, other: JoinableCall) -> bool:
        """Whether both may be one call."""
        return (self.snippet, self.numbers) == (other.snippet, other.numbers)


@dataclass(frozen=True)
class Line:
    """A line at a depth of indentation. `writes` are variables that it may write, or what these point to.

    `in_memory`: it may write there, or to one lane of a variable. A `constant` is a name that it declares for good.
    `target` is the place that it assigns `value` to, where it only does that. A loop from 0 `counts` to a number.
    Any loop runs about so many `trips`, and a condition holds in a `share` of cases. A `single` call is not joined
    with others. `added_to` is a whole variable to which it adds.
    """

    code: Code
    kind: LineKind = LineKind.STATEMENT
    depth: int = 0
    writes: frozenset[str] = field(default_factory=frozenset)
    in_memory: bool = False
    constant: str = ""
    declared: Declared | None = None
    target: Lvalue | None = None
    value: Text | None = None
    counts: int | None = None
    trips: float | None = None
    share: float = 0.5
    call: JoinableCall | None = None
    single: bool = False
    added_to: str = ""

    def __str__(self) -> str:
        """The line as C has it."""
        return INDENT * self.depth + self.code

    @property
    def mentions(self) -> frozenset[str]:
        """All variables in it."""
        return self.code.variables


def constant(c_type: str, name: Code, value: object) -> Line:
    """`const c_type name = value;`."""
    return Line(code("const {} {} = {};", c_type, name, value), writes=frozenset((name,)), constant=name)


def variable(c_type: str, name: Code, value: object) -> Line:
    """`c_type name = value;`."""
    return Line(code("{} {} = {};", c_type, name, value), writes=frozenset((name,)))


def declaration(c_type: str, name: Code) -> Line:
    """`c_type name;`."""
    return Line(code("{} {};", c_type, name), writes=frozenset((name,)), declared=Declared(c_type, name))


def array(c_type: str, name: Code, count: int, attributes: str = "") -> Line:
    """`c_type name[count];`."""
    text, declared = code("{} {}[{}]{};", c_type, name, count, attributes), Declared(c_type, name, count)
    return Line(text, writes=frozenset((name,)), in_memory=True, declared=declared)


def assignment(target: Lvalue, value: Text) -> Line:
    """`target = value;`."""
    writes = frozenset((target.variable,))
    text, kind = code("{} = {};", target, value), STORE if target.single else VECTOR_STORE
    text = text if target.whole else text.computed(kind, target, offset=target.offset)
    sums = target.whole and target.variable in value.code.variables
    added_to = target.variable if sums else ""
    return Line(text, writes=writes, in_memory=not target.whole, target=target, value=value, added_to=added_to)


def addition(target: Lvalue, value: object) -> Line:
    """`target += value;`."""
    writes = frozenset((target.variable,))
    added_to = target.variable if target.whole else ""
    return Line(added(target, value), writes=writes, in_memory=not target.whole, added_to=added_to)


def call(function: str, *operands: object, elements: int = 1) -> Line:
    """`function(operands);`, which may write to all addresses among them, and handles so many elements."""
    places = [one.place for one in operands if isinstance(one, Address)]
    writes = frozenset(place.variable for place in places)
    in_memory = any(not place.whole for place in places)
    text = code("{}({});", function, listed(operands)).computed(kind_of(function), elements=elements)
    return Line(text, writes=writes, in_memory=in_memory)


def joinable(name: str, made: JoinableCall) -> Line:
    """The call `name(numbers, &variables, sources);`, which may write to the variables."""
    line = call(name, *made.numbers, *(Lvalue.of(one).address for one in made.variables), *made.sources)
    return Line(line.code, writes=line.writes, call=made)


def branch(text: Code, share: float = 0.5) -> Line:
    """What opens a condition, which holds in a share of cases."""
    return Line(text, LineKind.OPENS, share=share)


def loop(text: Code, variable: Code, trips: float, counts: int | None = None) -> Line:
    """What opens a loop."""
    return Line(text, LineKind.OPENS, writes=frozenset((variable,)), counts=counts, trips=trips)


CLOSING = Line(Code("}"), LineKind.CLOSES)
ELSE = Line(Code("} else {"), LineKind.OTHERWISE)


def other(text: Code) -> Line:
    """A line that later passes leave where it is."""
    return Line(text, LineKind.OTHER)
