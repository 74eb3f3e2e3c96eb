"""Manifest schema: the keys of MANIFEST.json that some verb reads. Unknown keys are kept and ignored."""

from __future__ import annotations

import base64
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from edgetune.target.isa import Isa
from edgetune.target.preferences import Layout
from edgetune.yaml_reader.messages import complaint as in_words


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, frozen=True)


_Count = Annotated[int, Field(ge=0)]
_Cost = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Model(_Part):
    file: str
    sha256: str


class _Compiler(_Part):
    cc: str
    cflags: list[str]
    ldflags: list[str]
    package: str | None


class _BoardKind(_Part):
    name: str
    compiler: _Compiler


class _Target(_BoardKind):
    isa: Isa
    emulator: list[str]
    emulator_package: str | None


class _GpuTarget(_BoardKind):
    kind: Literal["gpu"]
    instead: str


class _Memory(_Part):
    weights_bytes: int
    weights_placement: Literal["text", "binary", "external"]
    workspace_bytes: _Count | None = None
    arena_bytes: _Count | None = None
    io_bytes: _Count | None = None
    state_bytes: _Count | None = None
    code_bytes: _Count | None = None
    call_stack_bytes: _Count | None = None
    measured_with: str | None = None


class _Tensor(_Part):
    name: str
    field: str
    shape: list[int]
    dtype: str
    nbytes: int = Field(alias="bytes")
    alignment: int
    layout: Layout = "model"
    scale: float | None = None
    zero_point: int | None = None


class _Tolerance(_Part):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    relative: float
    absolute: float
    share: float = 1.0
    step: float = 0.0
    disagreement: float = 0.0
    disagreeing: float = 0.0
    behind: int = 0
    rounding_error: float = 0.0
    reference_error: float = 0.0
    storage_error: float = 0.0


class _Output(_Tensor):
    tolerance: _Tolerance


class _Goldens(_Part):
    cases: int
    reference: str


class _Written(_Part):
    tensor: str = Field(pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$")
    offset: int = Field(ge=0)
    nbytes: int = Field(alias="bytes", ge=0)
    in_state: bool = False
    row_bytes: int = Field(default=0, ge=0)


class _Ring(_Part):
    axis: int = Field(ge=0)
    rows: int = Field(ge=1)
    count: int = Field(ge=1)
    position: str


class _State(_Part):
    input: str
    output: str
    shape: list[int]
    dtype: str
    zero: int
    first: str = ""
    copied: bool
    offset: int = Field(ge=0)
    nbytes: int = Field(alias="bytes", ge=0)
    layout: Layout = "model"
    ring: _Ring | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        first = len(base64.b64decode(self.first, validate=True))
        if first and self.ring is None and first != self.nbytes:
            raise ValueError("must have as many first bytes as the state")
        return self


class _StreamedTensor(_Part):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: str
    axis: _Count
    hop: Annotated[int, Field(ge=1)]
    window: Annotated[int, Field(ge=1)]


class _SteppedTensor(_Part):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: str
    settled: _Count
    axis: Annotated[int, Field(ge=-1)]
    frames: _Count
    latency: int
    endless: bool = False


class _Stream(_Part):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    inputs: Annotated[list[_StreamedTensor], Field(min_length=1)]
    outputs: Annotated[list[_SteppedTensor], Field(min_length=1)]
    latency_frames: _Count
    step_macs: _Count
    window_macs: _Count
    step_ram: _Count
    window_ram: _Count


class _LoopCall(_Part):
    kernel: str
    label: str
    macs: int
    times: int


class ManifestLayer(_Part):
    """One call of a kernel; `nbytes` counts all tensors that it reads or writes, with weights and scratch.

    A loop has no kernel, but `calls` of several.
    """

    kernel: str
    label: str
    macs: int
    output: list[int] = []
    nbytes: _Count | None = Field(default=None, alias="bytes")
    written: list[_Written] = []
    steps: int = 1
    calls: list[_LoopCall] = []


class _Provenance(_Part):
    workload: str = ""
    trace_sha256: str | None = None
    form: str = "direct"
    schedule: str = ""
    codegen_version: int = 0
    clock: Literal["time", "instructions"] = "time"
    median_us: _Cost | None = None
    low_us: _Cost | None = None
    high_us: _Cost | None = None
    instructions: _Count | None = None


class ManifestKernel(_Part):
    """One kernel, and where it comes from."""

    name: str
    symbol: str
    sources: list[str]
    macs: int
    calls: int
    provenance: _Provenance


class _File(_Part):
    nbytes: int = Field(alias="bytes")
    sha256: str


class _Generator(_Part):
    version: str = ""


class Manifest(_Part):
    """The keys that edgetune reads."""

    threads: int = 1
    name: str
    version: str = ""
    generator: _Generator = _Generator()
    prefix: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    model: _Model
    target: _BoardKind
    memory: _Memory
    inputs: list[_Tensor]
    outputs: list[_Output]
    states: list[_State] = []
    stream: _Stream | None = None
    goldens: _Goldens
    layers: list[ManifestLayer]
    kernels: list[ManifestKernel]
    files: dict[str, _File]


class _CpuManifest(Manifest):
    target: _Target


class _GpuManifest(Manifest):
    target: _GpuTarget


def parsed(content: dict[str, Any]) -> Manifest:
    """Return a manifest that `read_manifest` gave, with attributes."""
    return Manifest.model_validate(content)


def complaint(content: dict[str, Any]) -> str | None:
    """Return what is wrong with a manifest, naming the key, or None."""
    target = content.get("target")
    gpu = isinstance(target, dict) and target.get("kind") == "gpu"
    try:
        (_GpuManifest if gpu else _CpuManifest).model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        if first["type"] == "missing":
            return f"it lacks the key '{key}'"
        return f"its key '{key}' is wrong (it {in_words(first)})"
    return None
