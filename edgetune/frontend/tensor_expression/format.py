"""The member `tensor-expression` of the registry of model formats: a tensor expression of TVM, written in Python.

It is one kernel, whose weights are packed as the winning schedule wants them. TVM is imported when an expression is
read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgetune.errors import ModelError
from edgetune.events import Event
from edgetune.frontend.model_format import (
    Feed,
    Model,
    ModelFormat,
    ModelSource,
    OpenShape,
    Recognition,
    Shapes,
    StoredModel,
)
from edgetune.graph.ways import USUAL, Ways

if TYPE_CHECKING:
    import numpy as np

    from edgetune.graph.program import Program, TensorSpec


@dataclass(frozen=True)
class TensorExpression:
    """`expression(*inputs, *constants)` gets `te.Tensor`s and returns one, or a list.

    `inputs` gives shape and numpy dtype name by parameter name, `constants` the weights. `name` is that of the kernel.
    """

    expression: Callable[..., Any]
    inputs: Mapping[str, tuple[Sequence[int], str]]
    constants: Mapping[str, np.ndarray]
    name: str


class TensorExpressionFormat(ModelFormat):
    """Objects of the class `TensorExpression`; no file is one."""

    def recognises(self, source: ModelSource) -> Recognition:
        """By the class."""
        return Recognition.CERTAIN if isinstance(source, TensorExpression) else Recognition.NONE

    def require(self, source: ModelSource, origin: str = "") -> None:
        """Nothing can be wrong before the expression is called."""

    def signature(self, source: ModelSource) -> Mapping[str, OpenShape]:
        """The shapes that the expression was given with."""
        return {name: tuple(shape) for name, (shape, _) in source.inputs.items()}

    def read(self, source: ModelSource) -> StoredModel:
        """Calls the expression; raises UsageError and UnsupportedOperator as `kernel_from_te` does."""
        from edgetune.frontend.tensor_expression.kernel import program_from_te

        return StoredExpression(program_from_te(source.expression, source.inputs, source.constants, source.name))


FORMAT = TensorExpressionFormat()


@dataclass(frozen=True)
class StoredExpression(StoredModel):
    """An expression as the program of its one kernel, whose shapes are all fixed."""

    only: Program

    @property
    def sha256(self) -> str:
        """The hash of the kernel's structure; it does not depend on the weights."""
        return self.only.model_sha256

    def with_shapes(self, shapes: Shapes) -> Model:
        """The model; raises ModelError for any shape."""
        if shapes:
            name = next(iter(shapes))
            raise ModelError(f"a shape is given for {name!r}, but an expression has its shapes already: leave it out")
        return ExpressionModel(self.only)


@dataclass(frozen=True)
class ExpressionModel(Model):
    """An expression: TVM's LLVM back end is the reference, which shows that the C computes what it says."""

    only: Program

    @property
    def inputs(self) -> Sequence[TensorSpec]:
        """The inputs in the order of the parameters."""
        return self.only.inputs

    def program(
        self,
        channels_last: frozenset[str] = frozenset(),
        *,
        ways: Ways = USUAL,
        states: Mapping[str, str] | None = None,
    ) -> Program:
        """The kernel, called once."""
        del channels_last, ways, states  # there are none
        return self.only

    def sample_inputs(self, inputs: Sequence[TensorSpec], count: int, seed: int) -> list[dict[str, np.ndarray]]:
        """Normally distributed floats, and integers of 0 to 7."""
        from edgetune.frontend.tensor_expression.kernel import normal_values

        return normal_values(inputs, count, seed)

    def reference_outputs(
        self, feeds: Sequence[Feed], program: Callable[[], Program], events: Callable[[Event], None]
    ) -> tuple[list[dict[str, np.ndarray]], str]:
        """What TVM's LLVM back end computes for the kernel."""
        from edgetune.graph.evaluate import EVALUATOR, evaluate_program

        del events  # the caller wrote the expression, and knows that nothing else evaluates it
        return evaluate_program(program(), feeds), EVALUATOR
