"""Facts of a TensorFlow Lite file: what it says of itself, and what an import of its translation shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from edgetune.errors import DynamicShape
from edgetune.frontend.model_facts import InterfaceTensor, ModelFacts, TensorQuantisation, UnsupportedNode
from edgetune.frontend.onnx.facts import costs_of_import
from edgetune.frontend.onnx.reader import OnnxModel
from edgetune.frontend.tflite.content import Quantisation, Tensor, TfliteContent
from edgetune.frontend.tflite.operators import translated
from edgetune.frontend.tflite.variables import VariableState


def facts_of(content: TfliteContent, loaded: Callable[[], OnnxModel]) -> ModelFacts:
    """The facts of a file, whose translation `loaded` reads; it is not called where operators are not supported.

    Raises ModelError as `loaded` does, except for shapes that stay open.
    """
    translation, refused = translated(content)
    unsupported = tuple(
        UnsupportedNode(one.operator.custom or one.operator.name, one.made, str(one)) for one in refused
    )
    facts = ModelFacts(
        format="TensorFlow Lite",
        version=f"schema {content.version}",
        producer=content.description,
        inputs=tuple(_interface(content.tensors[number]) for number in content.inputs),
        outputs=tuple(_interface(content.tensors[number]) for number in content.outputs),
        operators=dict(Counter(one.custom or one.name for one in content.operators).most_common()),
        unsupported=unsupported,
        weights=_weight_bytes(content),
        kept=tuple(_kept(state) for state, _ in translation.variables.states()),
    )
    if unsupported:
        return facts
    try:
        model = loaded()
    except DynamicShape as error:
        return facts.with_remarks(error.message)
    return facts.with_costs(costs_of_import(model))


def _interface(tensor: Tensor) -> InterfaceTensor:
    shape = tuple("?" if free < 0 and axis else extent for axis, (extent, free) in enumerate(_extents(tensor)))
    return InterfaceTensor(tensor.name, shape, tensor.type.lower(), _quantisation(tensor.quantisation))


def _kept(state: VariableState) -> InterfaceTensor:
    first = state.first
    return InterfaceTensor(state.name_in, first.elements.shape, first.type.lower(), _quantisation(first.quantisation))


def _quantisation(found: Quantisation | None) -> TensorQuantisation | None:
    if found is None:
        return None
    axis = found.axis if found.scale.size > 1 else None
    return TensorQuantisation(tuple(found.scale.tolist()), tuple(found.zero_point.tolist()), axis)


def _extents(tensor: Tensor) -> list[tuple[int, int]]:
    return list(zip(tensor.shape, tensor.signature, strict=True))


def _weight_bytes(content: TfliteContent) -> dict[str, int]:
    """Bytes of all constants by type, largest first; those that tensors share count once."""
    seen: dict[int, tuple[str, int]] = {}
    for tensor in content.tensors:
        if tensor.data is not None and tensor.data.nbytes:
            seen[tensor.buffer] = tensor.type.lower(), tensor.data.nbytes
    total: Counter[str] = Counter()
    for kind, size in seen.values():
        total[kind] += size
    return dict(total.most_common())
