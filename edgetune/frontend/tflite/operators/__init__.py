"""Translators of operators, one function each, by the operators' names in the schema of TensorFlow Lite."""

from __future__ import annotations

from collections.abc import Mapping

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.tflite.content import DTYPES, Content, Operator
from edgetune.frontend.tflite.operators import (
    convolution,
    elementwise,
    indexing,
    products,
    quantisation,
    reductions,
    resampling,
    shapes,
)
from edgetune.frontend.tflite.step import Step, Translator
from edgetune.frontend.tflite.translation import MisfitError, Translation

TRANSLATORS: Mapping[str, Translator] = {
    **convolution.TRANSLATORS,
    **elementwise.TRANSLATORS,
    **indexing.TRANSLATORS,
    **products.TRANSLATORS,
    **quantisation.TRANSLATORS,
    **reductions.TRANSLATORS,
    **resampling.TRANSLATORS,
    **shapes.TRANSLATORS,
}
"""All operators that are built."""


def translate(content: Content) -> Translation:
    """The translation of all operators of `content`.

    Raises UnsupportedOperator, which names all of those that are not translated, with the tensors they make.
    """
    translation = Translation(content)
    refused: list[str] = []
    for operator in content.operators:
        made = content.tensors[operator.outputs[0]].name if operator.outputs else ""
        where = f"{operator.custom or operator.name} (operator {operator.index}, which makes {made!r})"
        try:
            _require_plain(content, operator)
            TRANSLATORS.get(operator.name, _refused)(Step(translation, operator))
        except MisfitError as misfit:
            refused.append(f"{where} {misfit}")
    if refused:
        raise UnsupportedOperator(
            f"{content.path} has {'an operator' if len(refused) == 1 else f'{len(refused)} operators'} that edgetune "
            f"does not build: {'; '.join(refused)}; replace {'it' if len(refused) == 1 else 'them'} in the model"
        )
    return translation


def _refused(_: Step) -> None:
    raise MisfitError("is not supported")


def _require_plain(content: Content, operator: Operator) -> None:
    """Raises MisfitError for what no translator has to look at."""
    if operator.name == "CUSTOM":
        flex = operator.custom.startswith("Flex")
        raise MisfitError("is an operator of TensorFlow itself" if flex else "is a custom operator")
    if not operator.outputs:
        raise MisfitError("makes nothing")
    for number in (*operator.inputs, *operator.outputs):
        tensor = content.tensors[number] if number >= 0 else None
        if tensor is None:
            continue
        if tensor.type not in DTYPES:
            raise MisfitError(f"has the tensor {tensor.name!r} of type {tensor.type}")
        if tensor.variable:
            raise MisfitError(f"keeps the variable {tensor.name!r} between calls")
        if tensor.sparse:
            raise MisfitError(f"reads the sparse tensor {tensor.name!r}")
