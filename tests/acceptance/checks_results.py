"""Does the package compute what ONNX Runtime computes, or, quantised, what the definition of the operators says?"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from edgetune.frontend.onnx.reader import OnnxModel, read_onnx
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.package.golden import Golden
from edgetune.verify.driver import run_cases
from edgetune.verify.place import Here
from edgetune.verify.toolchain import PackageToolchain
from tests.acceptance.case import Case, run

Arrays = dict[str, np.ndarray]
CASES = 3
RELATIVE_LIMIT = 1e-4
# Rounding to float of a sum that lies half-way between two steps.
ONE_STEP = 1.001
RUN_SECONDS = 3600.0


def agreement(case: Case) -> str:
    """Three inputs whose outputs differ, each output near the reference's."""
    shapes = {tensor["name"]: tuple(tensor["shape"]) for tensor in case.manifest["inputs"]}
    model = read_onnx(case.model, shapes)
    feeds = inputs(case.model, model, shapes)
    steps = quantisation_steps(model.proto)
    answers = evaluate_model(model, feeds, "onnx.reference") if steps else onnxruntime_outputs(model, feeds)
    computed = package_outputs(case, feeds)
    worst, differing = 0.0, 0.0
    for name in answers[0]:
        scale = max(float(np.abs(a[name].astype(np.float64)).max()) for a in answers)
        limit = steps[name] * ONE_STEP if name in steps else RELATIVE_LIMIT * scale
        for wanted, got in zip(answers, computed, strict=True):
            error = np.abs(wanted[name].astype(np.float64).ravel() - got[name].astype(np.float64).ravel())
            assert error.max(initial=0.0) <= limit, f"output {name} is off by {error.max():g}, the limit is {limit:g}"
            worst = max(worst, error.max(initial=0.0) / (limit or 1.0))
            differing = max(differing, float(np.mean(error > limit / 2)))
        for one, other in combinations(answers, 2):
            distance = np.abs(one[name].astype(np.float64) - other[name].astype(np.float64)).max()
            assert distance > limit, f"output {name} hardly depends on the input ({distance:g})"
    if steps:
        return f"within one step, {differing:.1%} differ"
    return f"{worst * RELATIVE_LIMIT:.1e} of the largest output"


def inputs(path: Path, model: OnnxModel, shapes: dict[str, tuple[int, ...]]) -> list[Arrays]:
    """The inputs kept beside the model, and seeded ones until there are three."""
    feeds: list[Arrays] = []
    stored = path.with_suffix(".npz")
    if stored.is_file():
        kept = np.load(stored)
        for head in ("i_", *(f"i{number}_" for number in range(CASES))):
            names = [name for name in kept.files if name.startswith(head)]
            if names:
                feeds.append({name.removeprefix(head): kept[name] for name in names})
    kinds = {i.name: i.type.tensor_type.elem_type for i in model.proto.graph.input}
    generator = np.random.default_rng(20_240_601)
    while len(feeds) < CASES:
        feeds.append({name: _as(kinds[name], patches(generator, shape)) for name, shape in shapes.items()})
    return feeds[:CASES]


def _as(kind: int, values: np.ndarray) -> np.ndarray:
    return values.astype(onnx.helper.tensor_dtype_to_np_dtype(kind))


def patches(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Unit-scale values: coarse patches and noise, for white noise alone looks the same to networks that pool."""
    noise = generator.standard_normal(shape)
    if len(shape) < 3:
        return noise
    *lead, height, width = shape
    coarse = generator.standard_normal([*lead, -(-height // 16), -(-width // 16)])
    return np.asarray(1.5 * np.kron(coarse, np.ones((16, 16)))[..., :height, :width] + 0.3 * noise)


def onnxruntime_outputs(model: OnnxModel, feeds: list[Arrays]) -> list[Arrays]:
    """What ONNX Runtime computes, as it comes."""
    session = onnxruntime.InferenceSession(model.proto.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return [dict(zip(names, session.run(names, feed), strict=True)) for feed in feeds]


def quantisation_steps(model: onnx.ModelProto) -> dict[str, float]:
    """One step of each output that comes straight out of a DequantizeLinear, in the unit of the output."""
    scales = {i.name: onnx.numpy_helper.to_array(i) for i in model.graph.initializer}
    makers = {output: node for node in model.graph.node for output in node.output}
    found = [(output.name, makers[output.name]) for output in model.graph.output]
    return {name: float(scales[n.input[1]].max()) for name, n in found if n.op_type == "DequantizeLinear"}


def package_outputs(case: Case, feeds: list[Arrays]) -> list[Arrays]:
    """What the package computes for `feeds`, natively or under the board's emulator."""
    folder = case.copy("results")
    tools = PackageToolchain.of(case.manifest)
    run("make", "-s", "lib", f"build/{case.prefix}_selftest", cwd=folder)
    return run_cases(folder, case.manifest, tools, Here(tools), [Golden(feed, {}) for feed in feeds], RUN_SECONDS)
