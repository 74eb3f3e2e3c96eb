"""ncnn: the model by way of pnnx, one thread, pool allocators and packed layouts as its own benchmark sets them."""

from __future__ import annotations

import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.side import Arrays, Call, CannotLoad, Case, Loaded, require_file, require_float32, version_of

CONVERSION_S = 240.0


class NcnnNet:
    """A net; every inference makes an extractor, as ncnn wants it."""

    def load(self, case: Case) -> Loaded:
        """Convert and load the model; raises CannotLoad when pnnx cannot convert it."""
        version = f"{version_of('ncnn')}, pnnx {version_of('pnnx')}"
        require_file(case, "ncnn", ".onnx")
        require_float32(case, "ncnn")
        parameters = _convert(case)
        import ncnn

        net: Any = ncnn.Net()
        net.opt.num_threads = 1
        net.opt.lightmode = True
        net.opt.use_packing_layout = True
        net.opt.use_winograd_convolution = True
        net.opt.use_sgemm_convolution = True
        net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
        net.opt.use_bf16_storage = False
        # One thread, so no locks; the net does not own them.
        self._pools = (ncnn.UnlockedPoolAllocator(), ncnn.UnlockedPoolAllocator())
        net.opt.blob_allocator, net.opt.workspace_allocator = self._pools
        if net.load_param(str(parameters)) or net.load_model(str(parameters.with_suffix(".bin"))):
            raise CannotLoad("ncnn cannot load what pnnx wrote")
        self._net = net
        self._inputs = list(zip(net.input_names(), (spec.name for spec in case.inputs), strict=True))
        self._outputs = list(zip(net.output_names(), case.outputs, strict=True))
        self._last: dict[str, Any] = {}
        return Loaded(version, "num_threads=1, lightmode, packing, winograd and sgemm, pool allocators, float32")

    def prepare(self, feed: Arrays) -> Call:
        """Make the input matrices."""
        import ncnn

        matrices = [(ours, ncnn.Mat(np.ascontiguousarray(feed[name])[0]).clone()) for ours, name in self._inputs]
        make, last, wanted = self._net.create_extractor, self._last, [ours for ours, _ in self._outputs]

        def infer() -> None:
            extractor = make()
            for name, matrix in matrices:
                extractor.input(name, matrix)
            for name in wanted:
                last[name] = extractor.extract(name)[1]

        return infer

    def answers(self) -> dict[str, np.ndarray]:
        """Outputs of the last run, with the batch axis that ncnn does not have."""
        return {name: np.array(self._last[ours])[np.newaxis] for ours, name in self._outputs}


def _convert(case: Case) -> Path:
    """Run pnnx, which writes beside its input, in the work folder."""
    if any(spec.shape[:1] != (1,) for spec in case.inputs):
        raise CannotLoad("ncnn has no batch axis, and an input has another first axis than 1")
    model = case.work / "model.onnx"
    shutil.copyfile(case.model, model)
    # The program alone: the Python package around it wants torch.
    program = metadata.distribution("pnnx").locate_file("pnnx/pnnx")
    done = subprocess.run(
        [str(program), model.name, "fp16=0", "optlevel=2"],
        cwd=case.work,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=CONVERSION_S,
        check=False,
    )
    found = case.work / "model.ncnn.param"
    if done.returncode or not found.exists():
        words = (done.stderr or done.stdout).strip().splitlines() or ["it says nothing"]
        raise CannotLoad(f"pnnx cannot convert the model ({words[-1]})")
    return found
