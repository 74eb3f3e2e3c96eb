"""Evaluators of quantised models: which one is the reference, and by how much they differ.

No implementation can be required to be more accurate than this difference. ONNX defines a quantised layer by float
arithmetic, but does not define the order of the sum in a convolution. Where a sum is near the middle between two
integers, the order decides which one results. Most networks absorb such a step; some amplify it from layer to layer
until most outputs differ.

Three evaluators compute a quantised model: ONNX's own, ONNX Runtime without its optimisation, and one of exact
integers. An output that operators compute in float from quantised tensors has no step of its own: its step is what
moving these tensors by one step does to it. Outputs of floats alone have no step either: rounding moves them, and a
model whose inner tensors are moved by one unit in the last place says how far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import helper

from edgetune.errors import ModelError
from edgetune.frontend.model_format import Rounding
from edgetune.frontend.onnx.double import evaluate_exactly
from edgetune.frontend.onnx.perturbed import RUNS, ends, moved_elements, rounded, stepped
from edgetune.frontend.onnx.reader import OnnxModel
from edgetune.frontend.onnx.reference import (
    Arrays,
    Evaluator,
    choose_evaluator,
    evaluate_model,
    is_installed,
    is_quantised,
    output_steps,
)
from edgetune.graph.accuracy import Tolerance, absolute_errors, compare

Answers = Sequence[Mapping[str, np.ndarray]]

EXACT = "exact integers"
"""Name of our own evaluator in reports."""

_MANY_ELEMENTS = 1 << 26
"""From so many moved elements on, which take about a second, each case has one run."""

_REFERENCE = "the reference"

_FAR = 0.1
"""Share of the largest element: evaluators that differ by more do not merely round in another order."""

_CLOSER = 0.1
"""Two evaluators outvote the third where they differ by at most this share of its difference from either of them."""


@dataclass(frozen=True)
class Disagreement:
    """Difference of one output: the largest one, in its own unit, and the share (0 to 1) of elements that differ."""

    largest: float = 0.0
    share: float = 0.0

    def or_more(self, other: Disagreement) -> Disagreement:
        """The larger of each number."""
        return Disagreement(max(self.largest, other.largest), max(self.share, other.share))


@dataclass(frozen=True)
class Step:
    """One step of an output, in its own unit.

    `behind` is the number of quantised tensors from which operators compute the output in float; 0 where it is
    quantised itself. `share` is the share of elements that one step of these tensors changes.
    """

    size: float
    behind: int = 0
    share: float = 1.0


def evaluate_quantised(model: OnnxModel, feeds: Sequence[Arrays]) -> tuple[Answers, str, Sequence[str]]:
    """Outputs for each of `feeds`, the evaluator that computed them, and what the user should know about the others.

    The first evaluator that runs the model and gives the shapes that the model declares is the reference, unless the
    other two outvote it. Raises ModelError, that of the first one, where none runs it.
    """
    found: dict[str, Answers] = {}
    said: list[str] = []
    failures: list[ModelError] = []
    for name, evaluate in _evaluators():
        if len(found) > 1 and _apart(*found.values()) <= _FAR:
            break
        try:
            answers = evaluate(model, feeds)
        except ModelError as error:
            failures.append(error)
            continue
        wrong = _misshapen(model, answers)
        if wrong:
            said.append(f"{name} {wrong}: it is left out")
        else:
            found[name] = answers
    if not found:
        raise failures[0] if failures else ModelError(f"{model.name}: {said[0]}; check the model")
    chosen = next(iter(found))
    if not said and failures and chosen != next(iter(_evaluators()))[0]:
        said.append(f"{failures[0].message}: the reference is {chosen}")
    outvoted = _outvoted(found)
    if outvoted:
        off = min(_apart(found[outvoted], other) for name, other in found.items() if name != outvoted)
        others = [name for name in found if name != outvoted]
        said.append(
            f"{outvoted} differs by {100 * off:.3g} % of the largest element from {others[0]} and {others[1]}, which "
            "agree: it is left out"
        )
        chosen = others[0] if chosen == outvoted else chosen
    return found[chosen], chosen, said


def disagreement(
    model: OnnxModel, feeds: Sequence[Arrays], answers: Answers, steps: Mapping[str, float]
) -> Mapping[str, Disagreement]:
    """Compare `answers`, the reference's for `feeds`, with those of ONNX Runtime and of exact integers.

    An evaluator that cannot run the model, or gives other shapes, is left out; so is one that ten times closer others
    outvote. Differences below half a step of an output, such as those of rounding a float, do not count as a share.
    """
    found: dict[str, Answers] = {_REFERENCE: answers}
    for name, evaluate in _evaluators():
        if name == "onnx.reference":  # where it runs, `answers` are its own
            continue
        try:
            other = evaluate(model, feeds)
        except ModelError:
            continue
        if not _misshapen(model, other):
            found[name] = other
    outvoted = _outvoted(found)
    if outvoted and outvoted != _REFERENCE:
        del found[outvoted]
    differences = {name: Disagreement() for name in answers[0]} if answers else {}
    for one, other in _pairs([*found.values()]):
        for a, b in zip(one, other, strict=True):
            for name, before in differences.items():
                differences[name] = before.or_more(_difference(a[name], b[name], steps.get(name, 0.0) / 2))
    return differences


def known_steps(model: OnnxModel) -> Mapping[str, Step]:
    """The steps of outputs that quantisation produces directly."""
    return {name: Step(size) for name, size in output_steps(model).items()}


def carried_steps(model: OnnxModel, feeds: Sequence[Arrays]) -> Mapping[str, Step]:
    """The steps of the other outputs: what moving the last quantised tensors before each by one step does to it.

    Each element of these tensors is moved up or down at random, in `RUNS` seeded runs for each of `feeds`. Outputs that
    no quantised tensor precedes are left out, and so are those that do not change. Raises ModelError where no evaluator
    runs the model with its tensors moved.
    """
    direct = output_steps(model)
    behind = {name: end.quantised for name, end in ends(model).items() if end.quantised and name not in direct}
    tensors = sorted({tensor for names in behind.values() for tensor in names})
    moved = [each for each in (stepped(model, tensors, run) for run in range(RUNS)) if each is not None]
    if not moved:
        return {}
    (before, *after), _ = _evaluate_alike([(each, feeds) for each in (model, *moved)])
    found = {name: Disagreement() for name in behind}
    for answers in after:
        for a, b in zip(before, answers, strict=True):
            for name, so_far in found.items():
                found[name] = so_far.or_more(_difference(a[name], b[name], 0.0))
    moves = {name: one for name, one in found.items() if 0.0 < one.largest < np.inf}
    return {name: Step(one.largest, len(behind[name]), one.share) for name, one in moves.items()}


def effect_of_rounding(model: OnnxModel, feeds: Sequence[Arrays], answers: Answers) -> Mapping[str, Rounding]:
    """What rounding each inner tensor by one unit in the last place does to outputs that no quantised tensor precedes.

    There are `RUNS` seeded runs for each of `feeds`, or one for each where a model is so large that these would take
    minutes.
    `answers` are those of the evaluator that `choose_evaluator` names; where another one runs what is moved, it also
    runs the model itself. Raises ModelError where no evaluator runs the model with its tensors moved.
    """
    names = [name for name, end in ends(model).items() if not end.quantised]
    few = moved_elements(model) * RUNS * len(feeds) > _MANY_ELEMENTS
    chosen = [slice(run, None, RUNS) if few else slice(None) for run in range(min(RUNS, len(feeds)) if few else RUNS)]
    moved = [each for each in (rounded(model, run) for run in range(len(chosen))) if each is not None]
    if not names or not moved:
        return {}
    others, evaluator = _evaluate_alike([(each, feeds[part]) for each, part in zip(moved, chosen, strict=True)])
    if is_quantised(model) or evaluator != choose_evaluator(model):
        answers = evaluate_model(model, feeds, evaluator)
    found = dict.fromkeys(names, Rounding())
    for part, after in zip(chosen, others, strict=True):
        for one, other in zip(answers[part], after, strict=True):
            for name, before in found.items():
                found[name] = _worse(before, one[name], other[name])
    return found


def _worse(before: Rounding, one: np.ndarray, other: np.ndarray) -> Rounding:
    if one.shape != other.shape:
        return Rounding(np.inf, 1.0)
    error = compare(other, one, Tolerance())
    differs = _difference(one, other, 0.0)
    largest = error.relative if one.dtype.kind not in "biu" else differs.largest
    return Rounding(max(before.largest, largest), max(before.share, differs.share))


def _evaluators() -> Iterator[tuple[str, Callable[[OnnxModel, Sequence[Arrays]], Answers]]]:
    yield "onnx.reference", lambda model, feeds: evaluate_model(model, feeds, "onnx.reference")
    if is_installed():
        yield "onnxruntime", lambda model, feeds: evaluate_model(model, feeds, "onnxruntime")
    yield EXACT, evaluate_exactly


def _evaluate_alike(cases: Sequence[tuple[OnnxModel, Sequence[Arrays]]]) -> tuple[list[Answers], Evaluator]:
    """The answers of models for feeds by one evaluator, and which: ONNX Runtime where it runs all, as the fastest."""
    if is_installed():
        try:
            return [evaluate_model(model, feeds, "onnxruntime") for model, feeds in cases], "onnxruntime"
        except ModelError:
            pass  # of all models alike: ONNX's own evaluator may know the operator
    return [evaluate_model(model, feeds, "onnx.reference") for model, feeds in cases], "onnx.reference"


def _misshapen(model: OnnxModel, answers: Answers) -> str:
    """What is wrong with the shapes or types of answers, in words; "" where they are as the model declares."""
    for output in model.proto.graph.output:
        kind = output.type.tensor_type
        declared = [dim.dim_value for dim in kind.shape.dim]
        for answer in answers:
            got = answer[output.name]
            fits = got.ndim == len(declared) and all(d in (0, n) for d, n in zip(declared, got.shape, strict=True))
            if kind.HasField("shape") and not fits:
                return f"gives output {output.name!r} the shape {got.shape}, the model declares {tuple(declared)}"
            if kind.elem_type and got.dtype != helper.tensor_dtype_to_np_dtype(kind.elem_type):
                return f"gives output {output.name!r} the type {got.dtype}, which the model does not declare"
    return ""


def _outvoted(found: Mapping[str, Answers]) -> str:
    """The one of three evaluators that is far from the other two, which are close to one another; "" where none is."""
    if len(found) < 3:
        return ""
    names = list(found)
    for name in names:
        one, other = (found[n] for n in names if n != name)
        off = min(_apart(found[name], one), _apart(found[name], other))
        if off > _FAR and _apart(one, other) <= _CLOSER * off:
            return name
    return ""


def _apart(one: Answers, other: Answers) -> float:
    """The largest difference of two evaluators, as a share of the largest element of the output."""
    pairs = [(a[name], b[name]) for a, b in zip(one, other, strict=True) for name in a]
    return max((compare(a, b, Tolerance()).relative for a, b in pairs), default=0.0)


def _pairs(answers: Sequence[Answers]) -> Iterator[tuple[Answers, Answers]]:
    return ((one, other) for number, one in enumerate(answers) for other in answers[number + 1 :])


def _difference(one: np.ndarray, other: np.ndarray, counted: float) -> Disagreement:
    errors = absolute_errors(one, other)
    share = float(np.mean(errors > counted)) if errors.size else 0.0
    return Disagreement(float(np.max(errors, initial=0.0)), share)
