"""Manifest schema: the keys of MANIFEST.json that some verb reads. Unknown keys are kept and ignored."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator

from edgetune.package.manifest_part import ClosedPart, Count, ManifestPart, ShapedPart
from edgetune.package.manifest_states import StatePart, require_places
from edgetune.package.manifest_stream import StreamPart, require_frames
from edgetune.target.isa import Isa
from edgetune.target.preferences import Io
from edgetune.yaml_reader.messages import complaint as in_words

_IDENTIFIER = r"^([A-Za-z_][A-Za-z0-9_]*)?$"
_Cost = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Model(ManifestPart):
    file: str
    sha256: str


class _Compiler(ManifestPart):
    cc: str
    cflags: list[str]
    ldflags: list[str]
    package: str | None


class _BoardKind(ManifestPart):
    name: str
    compiler: _Compiler


class _Target(_BoardKind):
    isa: Isa
    emulator: list[str]
    emulator_package: str | None


class _GpuTarget(_BoardKind):
    kind: Literal["gpu"]
    instead: str


class _Workspace(ManifestPart):
    region: str
    field: str = Field(pattern=_IDENTIFIER)
    nbytes: Count = Field(alias="bytes")
    section: str = Field(pattern=r"^(\.[A-Za-z0-9_.]+)?$")


class _Memory(ManifestPart):
    weights_bytes: int
    weights_placement: Literal["text", "binary", "external"]
    workspace_bytes: Count | None = None
    workspaces: list[_Workspace] = Field(default_factory=list)
    arena_bytes: Count | None = None
    io_bytes: Count | None = None
    io: Io = "caller"
    state_bytes: Count | None = None
    code_bytes: Count | None = None
    call_stack_bytes: Count | None = None
    measured_with: str | None = None


class _Tensor(ShapedPart):
    name: str
    field: str
    dtype: str
    nbytes: int = Field(alias="bytes")
    alignment: int
    scale: float | None = None
    zero_point: int | None = None


class _Tolerance(ClosedPart):
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


class _Goldens(ManifestPart):
    cases: int
    reference: str


class _Written(ManifestPart):
    tensor: str = Field(pattern=_IDENTIFIER)
    offset: int = Field(ge=0)
    nbytes: int = Field(alias="bytes", ge=0)
    in_state: bool = False
    row_bytes: int = Field(default=0, ge=0)
    workspace: str = Field(default="", pattern=_IDENTIFIER)


class _LoopCall(ManifestPart):
    kernel: str
    label: str
    macs: int
    times: int


class ManifestLayer(ManifestPart):
    """One call of a kernel; `nbytes` counts all tensors that it reads or writes, with weights and scratch.

    A loop has no kernel, but `calls` of several.
    """

    kernel: str
    label: str
    macs: int
    output: list[int] = Field(default_factory=list)
    nbytes: Count | None = Field(default=None, alias="bytes")
    written: list[_Written] = Field(default_factory=list)
    steps: int = 1
    calls: list[_LoopCall] = Field(default_factory=list)


class _Provenance(ManifestPart):
    workload: str = ""
    trace_sha256: str | None = None
    form: str = "direct"
    schedule: str = ""
    codegen_version: int = 0
    clock: Literal["time", "instructions"] = "time"
    median_us: _Cost | None = None
    low_us: _Cost | None = None
    high_us: _Cost | None = None
    instructions: Count | None = None


class ManifestKernel(ManifestPart):
    """One kernel, and where it comes from."""

    name: str
    symbol: str
    sources: list[str]
    macs: int
    calls: int
    provenance: _Provenance


class _File(ManifestPart):
    nbytes: int = Field(alias="bytes")
    sha256: str


class _Generator(ManifestPart):
    version: str = ""


class Manifest(ManifestPart):
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
    states: list[StatePart] = Field(default_factory=list)
    stream: StreamPart | None = None
    goldens: _Goldens
    layers: list[ManifestLayer]
    kernels: list[ManifestKernel]
    files: dict[str, _File]

    @field_validator("states", mode="after")
    @classmethod
    def _placed(cls, states: list[StatePart], info: ValidationInfo) -> list[StatePart]:
        require_places(states)
        tensors = {one.name for one in (*info.data.get("inputs", ()), *info.data.get("outputs", ()))}
        inside = next((name for one in states for name in (one.input, one.output) if name in tensors), None)
        if inside is not None:
            raise ValueError(f"has {inside!r}, which is an input or output of the package")
        size = info.data["memory"].state_bytes if "memory" in info.data else None
        if states and size is not None and states[-1].end > size:
            raise ValueError(f"ends at byte {states[-1].end}, and 'memory' has {size} bytes of states")
        return states

    @field_validator("stream", mode="after")
    @classmethod
    def _framed(cls, stream: StreamPart | None, info: ValidationInfo) -> StreamPart | None:
        if stream is not None and {"inputs", "outputs", "states"} <= info.data.keys():
            inputs = {one.name: one.of_model for one in info.data["inputs"]}
            outputs = {one.name: one.of_model for one in info.data["outputs"]}
            require_frames(stream, inputs, {one.output: one.of_model for one in info.data["states"]} | outputs)
        return stream


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
