"""Variables between calls: what is begun with, read and assigned, in the order of the operators in the file."""

from __future__ import annotations

from collections.abc import Mapping

from edgetune.frontend.tflite.content import DTYPES
from edgetune.frontend.tflite.step import OperatorStep, Translator
from edgetune.frontend.tflite.translation import MisfitError
from edgetune.frontend.tflite.variables import ResourceVariable


def call_once(step: OperatorStep) -> None:
    """CALL_ONCE runs a subgraph before the first call, which gives variables their first values."""
    number = int(step.option("InitSubgraphIndex", 0))
    try:
        values = step.first_values(number)
    except MisfitError:
        step.variables.misses_values = True
        raise
    if used := step.variables.begin(number, values):
        raise MisfitError(f"gives the variable {used!r} its first value after an operator has used it")


def var_handle(step: OperatorStep) -> None:
    """VAR_HANDLE names a variable by container and shared name."""
    container, name = (
        (step.option(field, None) or b"").decode("utf-8", "backslashreplace") for field in ("Container", "SharedName")
    )
    step.variables.add_handle(step.output().index, (container, name))


def read_variable(step: OperatorStep) -> None:
    """READ_VARIABLE: what was assigned last, or what the call before has left."""
    variable, tensor = _variable(step), step.output()
    if not variable.value:
        if variable.first is None and step.variables.misses_values:
            return
        if variable.first is None:
            raise MisfitError(f"reads the variable {variable.label!r} before anything gives it a value")
        variable.value = variable.name_in = step.fresh(variable.label)
        variable.name_out, variable.before = step.fresh(f"{variable.label}/next"), tensor.index
    if wrong := variable.misfit(tensor):
        raise MisfitError(f"reads the variable {variable.label!r} as {wrong}")
    step.give_raw(step.op("Identity", variable.value))


def assign_variable(step: OperatorStep) -> None:
    """ASSIGN_VARIABLE stores elements, not the real numbers that they stand for."""
    variable, tensor = _variable(step), step.input(1)
    if tensor.type not in DTYPES:
        raise MisfitError(f"assigns {tensor.name!r} of type {tensor.type}")
    if wrong := variable.misfit(tensor):
        raise MisfitError(f"assigns {tensor.name!r} to the variable {variable.label!r} as {wrong}")
    variable.assign(tensor)


def _variable(step: OperatorStep) -> ResourceVariable:
    tensor = step.input(0)
    found = step.variables.of(tensor.index)
    if found is None:
        raise MisfitError(f"takes {tensor.name!r} of type {tensor.type} as a variable, and no VAR_HANDLE makes it")
    return found


TRANSLATORS: Mapping[str, Translator] = {
    "ASSIGN_VARIABLE": assign_variable,
    "CALL_ONCE": call_once,
    "READ_VARIABLE": read_variable,
    "VAR_HANDLE": var_handle,
}
"""Operators of variables: some make nothing, and the tensors of some are handles."""
