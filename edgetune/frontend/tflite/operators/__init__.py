"""Translators of operators, one function each, by the operators' names in the schema of TensorFlow Lite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.tflite.content import DTYPES, Operator, TfliteContent
from edgetune.frontend.tflite.operators import (
    convolution,
    elementwise,
    indexing,
    matrix_products,
    quantisation,
    reductions,
    resampling,
    shapes,
)
from edgetune.frontend.tflite.step import OperatorStep, Translator
from edgetune.frontend.tflite.translation import MisfitError, Translation

TRANSLATORS: Mapping[str, Translator] = {
    **convolution.TRANSLATORS,
    **elementwise.TRANSLATORS,
    **indexing.TRANSLATORS,
    **matrix_products.TRANSLATORS,
    **quantisation.TRANSLATORS,
    **reductions.TRANSLATORS,
    **resampling.TRANSLATORS,
    **shapes.TRANSLATORS,
}
"""All operators that are built."""

_MISFITS = (LookupError, ValueError, TypeError, ArithmeticError, AttributeError, MemoryError)
"""What translators raise where constants are not what the operator takes, such as axes that its input lacks."""


@dataclass(frozen=True)
class RefusedOperator:
    """An operator that is not translated: the tensor that it makes, and why, without its name."""

    operator: Operator
    made: str
    reason: str

    def __str__(self) -> str:
        """Operator, place and reason."""
        shown = self.operator.custom or self.operator.name
        return f"{shown} (operator {self.operator.index}, which makes {self.made!r}) {self.reason}"


def translated(content: TfliteContent) -> tuple[Translation, Sequence[RefusedOperator]]:
    """The translation of the operators of `content`, and those that have none."""
    translation = Translation(content)
    refused: list[RefusedOperator] = []
    for operator in content.operators:
        try:
            _require_plain(content, operator)
            TRANSLATORS.get(operator.name, _refused)(OperatorStep(translation, operator))
        except MisfitError as misfit:
            refused.append(_refusal(content, operator, str(misfit)))
        except _MISFITS as fault:
            reason = (str(fault) or type(fault).__name__).splitlines()[0]
            refused.append(_refusal(content, operator, f"has operands or options that do not fit together ({reason})"))
    return translation, refused


def _refusal(content: TfliteContent, operator: Operator, reason: str) -> RefusedOperator:
    made = content.tensors[operator.outputs[0]].name if operator.outputs else ""
    return RefusedOperator(operator, made, reason)


def translate(content: TfliteContent) -> Translation:
    """The translation of all operators of `content`.

    Raises UnsupportedOperator, which names all of those that are not translated, with the tensors they make.
    """
    translation, refused = translated(content)
    if refused:
        raise UnsupportedOperator(
            f"{content.path} has {'an operator' if len(refused) == 1 else f'{len(refused)} operators'} that edgetune "
            f"does not build: {'; '.join(map(str, refused))}; replace {'it' if len(refused) == 1 else 'them'} in the "
            "model"
        )
    return translation


def _refused(_: OperatorStep) -> None:
    raise MisfitError("is not supported")


def _require_plain(content: TfliteContent, operator: Operator) -> None:
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
