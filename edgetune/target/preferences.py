"""Settings that the project file, the user file and target files have in common."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, StrictInt, StrictStr, model_validator

from edgetune.yaml_reader.checked import Checked
from edgetune.yaml_reader.quantities import MOST_THREADS, ByteCount, Seconds

Objective = Literal["latency"]
Rpc = Annotated[StrictStr, Field(min_length=1, examples=["agent", "tvm"])]
"""Name of the transport to a board with an address."""
Grade = Literal["A", "B", "C", "D"]
Winograd = Literal["off", "f2", "f4"]
Layout = Literal["model", "channels_last"]
Io = Literal["caller", "arena"]
"""Where inputs and outputs of a package lie: in the caller's own memory, or in the workspace among inner tensors."""
Precision = Literal["fp32", "fp16", "bf16", "tf32"]
"""How weights and tensors between layers are stored, or multiplied; sums are in float32."""


def _off(value: object) -> object:
    return "off" if value is False else value  # YAML reads off as False


class Budget(Checked):
    """How long to search: a number of trials over all tasks, or a time."""

    trials: Annotated[StrictInt, Field(ge=0)] | None = Field(
        default=None,
        description="Candidates to measure, over all tasks, including those already in the database.",
    )
    time: Seconds | None = Field(default=None, description="Time to search, such as 30m.")

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.trials is None) == (self.time is None):
            msg = "needs one of 'trials' and 'time'"
            raise ValueError(msg)
        return self


class MemoryLimits(Checked):
    """Most memory that the package may use."""

    ram: ByteCount | None = Field(default=None, description="Workspace (arena with scratch) in bytes.")
    flash: ByteCount | None = Field(default=None, description="Code and weights in bytes.")


class Accuracy(Checked):
    """Which algorithms may be used that round more than the sum of products that a convolution is."""

    winograd: Annotated[Winograd, BeforeValidator(_off)] | None = Field(
        default=None,
        description="Winograd's algorithm for 3x3 convolutions: off; f2: tiles of 2x2, with rounding errors hardly "
        "larger than those of direct convolution; f4: also tiles of 4x4, with errors about three to ten times "
        "as large.",
    )


class Preferences(Checked):
    """Settings with a default, common to every configuration file."""

    budget: Budget | None = Field(default=None, description="How long to search.")
    objective: Objective | None = Field(default=None, description="What to minimize.")
    memory: MemoryLimits | None = Field(default=None, description="Most memory that the package may use.")
    accuracy: Accuracy | None = Field(default=None, description="Which less exact algorithms may be used.")
    seed: Annotated[StrictInt, Field(ge=0, lt=2**31)] | None = Field(default=None, description="Seed of the search.")
    threads: Annotated[StrictInt, Field(ge=1, le=MOST_THREADS)] | None = Field(
        default=None,
        description="Most threads that the package may use on the board.",
    )
    layout: Layout | None = Field(
        default=None,
        description=(
            "Order of the axes of image inputs and outputs: model, as in the model; channels_last: (N, H, W, C)."
        ),
    )
    io: Io | None = Field(
        default=None,
        description=(
            "Where inputs and outputs lie: caller, in memory of the caller's own; arena, in the workspace, where they "
            "share memory with tensors between layers."
        ),
    )
    rpc: Rpc | None = Field(
        default=None,
        description="agent: edgetune's own program, over SSH; tvm: TVM's RPC server; or an installed transport "
        "(default: as in boards.yaml).",
    )
    min_trust: Grade | None = Field(
        default=None, description="Refuse times with a trust grade below this one: A, B, C, or D, which refuses none."
    )
    flavours: tuple[Annotated[StrictStr, Field(min_length=1)], ...] | None = Field(
        default=None,
        description="Build systems that the package gets files for, such as cmake; make is always one of them.",
    )
