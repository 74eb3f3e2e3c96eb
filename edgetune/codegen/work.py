"""Work: what a core does for printed C, one operation at a time; estimates of instructions add it up."""

from __future__ import annotations

from typing import NamedTuple

LOAD, VECTOR_LOAD = "load", "vector load"
STORE, VECTOR_STORE = "store", "vector store"
ARITHMETIC = "arithmetic"
MULTIPLY = "multiply"
MULTIPLY_ADD = "multiply-add"
DIVIDE = "divide"
INSERT = "insert"
BROADCAST = "broadcast"
SELECT = "select"
INDEX_DIVISION = "division of an index"


class Operation(NamedTuple):
    """One operation: its kind, the text of its result, what that reads, and the elements that a call handles.

    A load or store has the `offset` of its place, in elements from an index that is computed.

    The kind of a call is the snippet that defines the function ("exp:f32x8"), or its name. Operations of equal text are
    one as long as nothing writes to what they read.
    """

    kind: str
    text: str
    reads: frozenset[str]
    elements: int = 1
    offset: int = 0


class SnippetName(str):
    """The name in C of a function of the preamble, and that of its snippet."""

    __slots__ = ("snippet",)

    snippet: str

    @classmethod
    def of(cls, name: str, snippet: str) -> SnippetName:
        """The function `name` that `snippet` defines."""
        made = cls(name)
        made.snippet = snippet
        return made


def kind_of(function: str) -> str:
    """The kind of the operation that a call of a function is: the snippet that defines it, or its name."""
    return function.snippet if isinstance(function, SnippetName) else function
