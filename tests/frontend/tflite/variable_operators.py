"""Operators of resource variables in files that tests write, and the subgraphs that begin them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.frontend.tflite.branches import Branches
from tests.frontend.tflite.writer import Quantised, Writer

TYPES = {"FLOAT32", "INT8", "UINT8", "INT16"}


def handle(writer: Writer, name: str) -> int:
    """A handle of the variable `name`."""
    made = writer.tensor((), "RESOURCE", name=f"handle{len(writer.tensors)}")
    writer.operator("VAR_HANDLE", [], [made], "VarHandleOptions", SharedName=name)
    return made


def read(writer: Writer, of: int, shape: Sequence[int], type_: str, quantised: Quantised | None = None) -> int:
    """What a variable holds."""
    made = writer.tensor(shape, type_, quantised)
    writer.operator("READ_VARIABLE", [of], [made], "ReadVariableOptions")
    return made


def assign(writer: Writer, to: int, value: int) -> None:
    """Stores a tensor in a variable."""
    writer.operator("ASSIGN_VARIABLE", [to, value], [], "AssignVariableOptions")


def call_once(writer: Writer, subgraph: int | None = None) -> Writer:
    """Runs a subgraph once: another one, which is returned, or that number."""
    writer.others.append(Writer())
    number = len(writer.others) if subgraph is None else subgraph
    writer.operator("CALL_ONCE", [], [], "CallOnceOptions", InitSubgraphIndex=number)
    return writer.others[-1]


def begin(writer: Writer, name: str, value: object, type_: str, quantised: Quantised | None = None) -> None:
    """Gives the variable `name` a first value, by a subgraph of its own."""
    initial = call_once(writer)
    constant = initial.constant(np.asarray(value), type_, quantised)
    assign(initial, handle(initial, name), constant)


def read_first_value(b: Branches) -> None:
    """A variable that CALL_ONCE begins, and that nothing assigns."""
    name, quantised = f"begun {len(b.forms)}", b.quantised(-1, 1)
    begin(b.writer, name, b.random.integers(0, 100, (2, 3)), b.type, quantised)
    of = handle(b.writer, name)
    b.make("READ_VARIABLE", [of], b.type if quantised is None else quantised, kind="ReadVariableOptions", exact=True)


def read_assigned(b: Branches) -> None:
    """A variable that is assigned twice, and read each time: integers stay, also where they have another scale."""
    of, quantised = handle(b.writer, f"assigned {len(b.forms)}"), b.quantised(-2, 3)
    for _ in range(2):
        assign(b.writer, of, b.x(2, 3))
        result = b.type if quantised is None else quantised
        b.make("READ_VARIABLE", [of], result, kind="ReadVariableOptions", exact=True)


CASES = {
    "ASSIGN_VARIABLE": (read_assigned, TYPES),
    "CALL_ONCE": (read_first_value, TYPES),
    "READ_VARIABLE": (read_assigned, TYPES),
    "VAR_HANDLE": (read_first_value, TYPES),
}
"""Forms of a single call; `test_variables.py` has those of several."""
