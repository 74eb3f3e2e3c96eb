"""Translators of operators, one function each, by the operators' names in the schema of TensorFlow Lite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from edgetune.errors import ModelError, UnsupportedOperator
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
    variables,
)
from edgetune.frontend.tflite.step import OperatorStep, Translator
from edgetune.frontend.tflite.translation import MisfitError, Translation
from edgetune.frontend.tflite.variables import FirstValue, Key

TRANSLATORS: Mapping[str, Translator] = {
    **convolution.TRANSLATORS,
    **elementwise.TRANSLATORS,
    **indexing.TRANSLATORS,
    **matrix_products.TRANSLATORS,
    **quantisation.TRANSLATORS,
    **reductions.TRANSLATORS,
    **resampling.TRANSLATORS,
    **shapes.TRANSLATORS,
    **variables.TRANSLATORS,
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
        made = f", which makes {self.made!r}" if self.made else ""
        return f"{shown} (operator {self.operator.index}{made}) {self.reason}"


def translated(content: TfliteContent) -> tuple[Translation, Sequence[RefusedOperator]]:
    """The translation of the operators of `content`, and those that have none."""
    translation = Translation(content, partial(_first_values, content))
    refused: list[RefusedOperator] = []
    for operator in content.operators:
        try:
            if operator.name not in variables.TRANSLATORS:
                _require_plain(content, operator)
            TRANSLATORS.get(operator.name, _refused)(OperatorStep(translation, operator))
        except MisfitError as misfit:
            refused.append(_refusal(content, operator, str(misfit)))
        except _MISFITS as fault:
            reason = (str(fault) or type(fault).__name__).splitlines()[0]
            refused.append(_refusal(content, operator, f"has operands or options that do not fit together ({reason})"))
    return translation, refused


def _first_values(content: TfliteContent, subgraph: int) -> Mapping[Key, FirstValue]:
    """What a subgraph that CALL_ONCE runs assigns to variables; raises MisfitError where it is not translated."""
    initial = content.initial.get(subgraph)
    if initial is None:
        raise MisfitError(
            f"runs subgraph {subgraph}, and the file has {content.subgraphs}, of which none may run itself"
        )
    if initial.inputs:
        raise MisfitError(f"runs subgraph {subgraph}, which has inputs")
    translation, refused = translated(initial)
    if refused:
        raise MisfitError(f"runs subgraph {subgraph}, in which {refused[0]}")
    return _evaluated(translation)


def _evaluated(translation: Translation) -> Mapping[Key, FirstValue]:
    """The values that a translated subgraph without inputs leaves in variables.

    Sums of integers are exact; floats are those of ONNX's evaluator. Raises MisfitError where nothing evaluates it.
    """
    tensors = translation.content.tensors
    assigned = {key: one for key, one in translation.variables if one.after >= 0}
    values = dict(translation.constants)
    computed = sorted({one.value for one in assigned.values()} - set(values))
    if computed:
        values |= _computed(translation, computed)
    return {
        key: FirstValue(values[one.value], tensors[one.after].type, tensors[one.after].quantisation)
        for key, one in assigned.items()
    }


def _computed(translation: Translation, names: list[str]) -> Mapping[str, np.ndarray]:
    """Tensors that operators compute from constants, by name."""
    from edgetune.frontend.onnx.double import evaluate_exactly
    from edgetune.frontend.onnx.reader import model_from_proto
    from edgetune.frontend.onnx.reference import evaluate_model

    content = translation.content
    try:
        model = model_from_proto(translation.model_of(names), content.sha256, content.path.stem, {}, str(content.path))
        quantised = any(tensor.quantisation is not None for tensor in content.tensors)
        (found,) = (evaluate_exactly if quantised else evaluate_model)(model, [{}])
    except ModelError as error:
        raise MisfitError(f"computes first values of variables, which cannot be evaluated ({error.message})") from None
    return found


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
