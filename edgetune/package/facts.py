"""Package facts: all data that the templates and the manifest of one package use."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from math import prod

from edgetune.codegen.preamble import short_names
from edgetune.graph.float_products import products_of
from edgetune.graph.loops import stage_of_each_call
from edgetune.graph.memory.plan import MemoryPlan
from edgetune.graph.program import Program
from edgetune.package.calls import CallView, KernelView, Slot
from edgetune.package.constants import ALIGNMENT, Weights
from edgetune.package.content import PackageContent, Views
from edgetune.package.core_files import weight_files
from edgetune.package.flags import CompilerFlags
from edgetune.package.interface import WORKSPACE_ALIGNMENT, Interface, PublicTensor
from edgetune.package.loop_views import LoopView
from edgetune.package.package_file import PackageFile
from edgetune.package.program_image import ProgramImage
from edgetune.package.provenance import amount
from edgetune.package.size import CodeSize, StaticSize
from edgetune.package.slow_kernels import slow_kernels
from edgetune.package.states import WORD_BYTES, layout_word
from edgetune.package.vectors import Vectors
from edgetune.schedule.algorithms.descriptions import describe_form
from edgetune.schedule.algorithms.schedule_text import WIDE
from edgetune.target.board_kind import BoardKind
from edgetune.target.isa.cpu_features import CpuChecks
from edgetune.target.memory_map import GUARD_BYTES

_SHOWN = 8
"""Tensors of a workspace in the report."""


@dataclass(frozen=True)
class PackageFacts:
    """All data that determine the bytes of a package; `files` are its core files, `image` says how tests are linked.

    `resets` are the numbers of the golden cases that begin with the first value of all states.
    """

    api: Interface
    program: Program
    plan: MemoryPlan
    target: BoardKind
    content: PackageContent
    flags: CompilerFlags
    cpu: CpuChecks | None
    slots: tuple[Slot, ...]
    calls: tuple[CallView, ...]
    loops: tuple[LoopView, ...]
    kernels: tuple[KernelView, ...]
    weights: Weights
    vectors: Vectors
    goldens: int
    resets: tuple[int, ...]
    reference: str
    preamble: str
    model_file: str
    model_name: str
    version: tuple[int, int, int]
    generator: str
    size: StaticSize
    files: tuple[PackageFile, ...]
    image: ProgramImage

    def computes_floats(self) -> bool:
        """Whether any kernel uses floats."""
        return any(kernel.floats for kernel in self.kernels)

    def sources(self) -> tuple[str, ...]:
        """Names of the files in src/ that make up the library."""
        return self._names("src/", self.content.suffixes)

    def code_sources(self) -> tuple[str, ...]:
        """Those of them that hold code, not weights."""
        weights = {file.path for file in weight_files(self.api, self.weights)}
        return tuple(name for name in self.sources() if f"src/{name}" not in weights)

    def test_assembly(self) -> tuple[str, ...]:
        """Names of the assembler files in test/."""
        return self._names("test/", (".S",))

    def _names(self, folder: str, suffixes: tuple[str, ...]) -> tuple[str, ...]:
        paths = (file.path for file in self.files if file.path.endswith(suffixes))
        return tuple(path.removeprefix(folder) for path in paths if path.startswith(folder))


def template_context(facts: PackageFacts) -> dict[str, object]:
    """Return the variables of the package templates."""
    api, plan, target = facts.api, facts.plan, facts.target
    tuned_by = facts.content.tuned_by(target)
    buffer_alignment = max(WORKSPACE_ALIGNMENT, *(t.alignment for t in (*api.inputs, *api.outputs)), 1)
    measured = [call.provenance.cost for call in facts.calls if call.provenance.cost is not None]
    return {
        "p": api.prefix,
        "run": api.run_function,
        "turn": api.turn,
        "parameters": "".join(f", const {api.prefix}_{name} *{name}" for name in api.passed),
        "arguments": "".join(f", {name}" for name in api.passed),
        "addresses": "".join(f", &{name}" for name in api.passed),
        "api": api,
        "workspaces": api.workspaces,
        "program": facts.program,
        "plan": plan,
        "target": target,
        "made_for": facts.content.made_for(target),
        "faster": f"`{tuned_by}` searches for faster ones." if tuned_by else "",
        "untuned": sum(kernel.provenance.origin == "fixed" for kernel in facts.kernels),
        "flags": facts.flags,
        "image": facts.image,
        "cpu": facts.cpu,
        "computes_floats": facts.computes_floats(),
        "slots": facts.slots,
        "calls": facts.calls,
        "loops": facts.loops,
        "peak_layer": _peak_layer(facts),
        "kernels": facts.kernels,
        "threads_of": {launch.kernel: prod(launch.block) for kernel in facts.kernels for launch in kernel.launches},
        "products": products_of(facts.program),
        "wide": [kernel for kernel in facts.kernels if kernel.provenance.form in WIDE],
        "slow": slow_kernels(facts.kernels, tuned_by),
        "rooflines": sum(kernel.provenance.roofline_share is not None for kernel in facts.kernels),
        "weights": facts.weights,
        "vectors": facts.vectors,
        "goldens": range(facts.goldens),
        "preamble": facts.preamble.strip("\n"),
        "model_name": facts.model_name,
        "version": facts.version,
        "generator": facts.generator,
        "workspace_alignment": WORKSPACE_ALIGNMENT,
        "weights_alignment": ALIGNMENT,
        "buffer_alignment": buffer_alignment,
        "guard_bytes": GUARD_BYTES,
        "self_test_bytes": facts.image.self_test_bytes(
            len(api.workspaces) + sum(t.offset is None for t in api.outputs), buffer_alignment
        )
        + _copies_of_states(api),
        "context_words": api.context_words,
        "resets": facts.resets,
        "state_word": layout_word(api.states),
        "state_word_bytes": WORD_BYTES,
        "uses_rows": _names(facts.calls, "__row("),
        "uses_positions": _names(facts.calls, "POSITION("),
        "state_in_layers": _names(facts.calls, "STATE("),
        "uses_state": _names(facts.calls, "STATE(") or any(loop.names("STATE(") for loop in facts.loops),
        "reference": facts.reference,
        "build_info": build_info(facts),
        "compile_flags": " ".join(facts.flags.measured),
        "short_names": short_names(facts.preamble),
        "describe_form": describe_form,
        "scarce": target.memory_is_scarce,
        "arena_in_layers": _names(facts.calls, "ARENA("),
        "weights_in_layers": _names(facts.calls, "WEIGHT("),
        "uses_arena": _names(facts.calls, "ARENA(") or any(loop.names("ARENA(") for loop in facts.loops),
        "uses_weights": _names(facts.calls, "WEIGHT(") or any(loop.names("WEIGHT(") for loop in facts.loops),
        "unused_by_layers": _unused_by_layers(facts),
        "inputs_initializer": _initializer("input", api.inputs),
        "outputs_initializer": _initializer("output", api.outputs),
        "sources": facts.sources(),
        "test_assembly": facts.test_assembly(),
        "test_objects": [f"{name.rsplit('.', 1)[0]}.o" for name in facts.test_assembly()],
        "has_assembly": any(name.endswith(".S") for name in (*facts.sources(), *facts.test_assembly())),
        "ratio": f"{plan.arena_bytes / plan.bound_bytes:.3f}" if plan.bound_bytes else "-",
        "io_bytes": facts.size.io_bytes,
        "io_beside": sum(t.nbytes for t in (*api.inputs, *api.outputs) if t.offset is None),
        "in_place": len(plan.in_place),
        "in_parts": len(facts.program.written_in_parts()),
        "renewed_in_parts": len(facts.program.renewed_in_parts()),
        "parts_read": facts.program.parts_read(),
        "copies_into_parts": facts.program.copies_into_parts(),
        "largest": _largest(facts.slots),
        "total_macs": sum(call.macs for call in facts.calls),
        "clock": target.clock,
        "measured_sum": amount(target.clock, sum(measured) if measured else None),
        "measured_layers": len(measured),
        "measured_all": bool(measured) and len(measured) == len(facts.calls),
        **facts.content.words(
            facts.program, plan, facts.weights, target, facts.sources(), Views(facts.calls, facts.kernels)
        ),
    }


def _largest(slots: Sequence[Slot]) -> list[Slot]:
    """The largest tensors and scratch of each workspace."""
    ordered = sorted(slots, key=lambda slot: (slot.workspace, -slot.nbytes, slot.first, slot.macro))
    return [slot for _, group in groupby(ordered, lambda slot: slot.workspace) for slot in islice(group, _SHOWN)]


def _copies_of_states(api: Interface) -> int:
    """Bytes of what the self-test holds for states: two copies, and two contexts beside the tested one."""
    return 2 * (api.state_bytes + WORD_BYTES * api.context_words) if api.states else 0


def _names(calls: Sequence[CallView], name: str) -> bool:
    """Whether an argument of some call names `name`."""
    return any(name in argument for call in calls for argument in call.arguments)


def _peak_layer(facts: PackageFacts) -> int:
    layers = stage_of_each_call(facts.program)
    return layers[facts.plan.peak_call] if layers else 0


def _unused_by_layers(facts: PackageFacts) -> tuple[str, ...]:
    """Parameters of the function that calls the layers which no layer of this package uses."""
    named = " ".join(argument for call in facts.calls for argument in call.arguments)
    own = r"s->|ARENA\(|STATE\("
    by_instance = rf"\b({own}|WEIGHT\()" if facts.api.external_weights else rf"\b({own})"
    loops = bool(facts.loops)  # their functions take all
    uses = {
        "s": loops or re.search(by_instance, named) is not None or any(call.ahead for call in facts.calls),
        **{name: loops or f"{name}->" in named for name in facts.api.passed},
        "alone": len(facts.calls) > 1,
    }
    return tuple(name for name, used in uses.items() if not used)


def _initializer(side: str, tensors: tuple[PublicTensor, ...]) -> str:
    return ", ".join(f".{t.field} = {side}_{t.field}" for t in tensors) or ".reserved = 0"


def build_info(facts: PackageFacts) -> str:
    """Return the line of `<p>_build_info()`."""
    version = ".".join(map(str, facts.version))
    return (
        f"{facts.api.prefix} {version}, model sha256 {facts.program.model_sha256}, target {facts.target.name}, "
        f"edgetune {facts.generator}, abi {facts.api.fingerprint}"
    )


def manifest_facts(facts: PackageFacts, code: CodeSize | None) -> dict[str, object]:
    """Return the content of MANIFEST.json except the table of files: JSON values only."""
    target = facts.content.manifest(facts.target, facts.api.threads)
    threads = {"threads": facts.api.threads} if facts.api.threads > 1 else {}
    return {
        **threads,
        "name": facts.model_name,
        "prefix": facts.api.prefix,
        "version": ".".join(map(str, facts.version)),
        "abi": facts.api.fingerprint,
        "generator": {"name": "edgetune", "version": facts.generator},
        "model": {"file": facts.model_file, "sha256": facts.program.model_sha256},
        "target": target,
        "memory": {
            "arena_bytes": facts.plan.arena_bytes,
            "arena_bound_bytes": facts.plan.bound_bytes,
            "peak_layer": _peak_layer(facts),
            "workspace_bytes": facts.api.workspace_bytes,
            "workspace_align": WORKSPACE_ALIGNMENT,
            "weights_bytes": facts.weights.nbytes,
            "weights_placement": facts.weights.placement,
            "io_bytes": facts.size.io_bytes,
            **({"workspaces": [one.to_json() for one in facts.api.workspaces]} if facts.plan.arenas else {}),
            **({} if facts.api.passed else {"io": facts.api.io}),
            "code_bytes": code.code_bytes if code else None,
            "stack_bytes": code.stack_bytes if code else None,
            "call_stack_bytes": code.call_stack_bytes if code else None,
            "measured_with": code.compiler if code else None,
            **({"state_bytes": facts.api.state_bytes} if facts.api.states else {}),
        },
        "inputs": [_tensor(t) for t in facts.api.inputs],
        "outputs": [_tensor(t) | {"tolerance": t.tolerance.to_json()} for t in facts.api.outputs],
        **({"states": [one.to_json() for one in facts.api.states]} if facts.api.states else {}),
        **({"stream": facts.api.stream.to_json()} if facts.api.stream else {}),
        "goldens": {"cases": facts.goldens, "reference": facts.reference},
        "layers": [
            {
                "kernel": call.kernel,
                "label": call.label,
                "output": list(call.shape),
                "macs": call.macs,
                "bytes": call.nbytes,
                "written": [place.to_json() for place in call.written],
                **_loop(call),
            }
            for call in facts.calls
        ],
        "kernels": [
            {
                "name": kernel.name,
                "symbol": kernel.symbol,
                "sources": list(kernel.sources),
                "macs": kernel.macs,
                "calls": kernel.calls,
                **({"threads": kernel.workers} if threads else {}),
                **_device_usage(kernel, code),
                "provenance": kernel.provenance.to_json(),
            }
            for kernel in facts.kernels
        ],
    }


def _loop(layer: CallView) -> dict[str, object]:
    """What a layer that is a loop runs, and how often in a run; nothing for another layer."""
    if not layer.parts:
        return {}
    calls = [
        {"kernel": call.kernel, "label": call.label, "macs": call.macs, "times": times} for call, times in layer.parts
    ]
    return {"steps": layer.steps, "calls": calls}


def _device_usage(kernel: KernelView, code: CodeSize | None) -> dict[str, object]:
    """What the launches of a kernel use of a GPU, as ptxas says; nothing for CPUs and without a compiler."""
    of = {usage.name: usage for usage in code.kernels} if code else {}
    found = [of[launch.kernel].to_json() for launch in kernel.launches if launch.kernel in of]
    return {"device": found} if found else {}


def _tensor(tensor: PublicTensor) -> dict[str, object]:
    layout = {"layout": tensor.layout} if tensor.layout != "model" else {}
    place = {} if tensor.offset is None else {"offset": tensor.offset}
    found = tensor.quantisation
    quantisation = {} if found is None else {"scale": found.scale, "zero_point": found.zero_point}
    return {
        **layout,
        **quantisation,
        **place,
        "name": tensor.name,
        "field": tensor.field,
        "shape": list(tensor.shape),
        "dtype": tensor.dtype,
        "bytes": tensor.nbytes,
        "alignment": tensor.alignment,
    }
