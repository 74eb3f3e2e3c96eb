"""Default schedules of a GPU whose registers do not suffice for the most promising one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
import yaml
from tvm.s_tir import Schedule

from edgetune.backends import gpu_registers
from edgetune.backends.gpu_registers import fitting_defaults, printed_defaults, spills
from edgetune.cli.main import run
from edgetune.errors import KernelFailed
from edgetune.graph.program import Kernel
from edgetune.pipeline.model_formats import read_model
from edgetune.resources import targets_dir
from edgetune.schedule.algorithms.schedule_text import trace_text
from edgetune.schedule.gpu.candidate import gpu_candidate
from edgetune.schedule.gpu_defaults import default_gpu_schedule, gpu_schedules
from edgetune.target.cuda_toolkit import require_nvcc
from edgetune.target.gpu import GpuTarget
from edgetune.tvm_types import PrimFunc
from tests.target.test_ptxas import few_registers, with_registers

FEW = 24
GREEDY = "products of matrices"  # a rule that spills with so few registers


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A convolution of 16 channels."""
    weights = onnx.numpy_helper.from_array(np.ones((16, 16, 3, 3), np.float32) / 144, "w")
    tensors = [onnx.helper.make_tensor_value_info(name, 1, [1, 16, 8, 8]) for name in "xy"]
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    graph = onnx.helper.make_graph([node], "convolution", tensors[:1], tensors[1:], [weights])
    path = tmp_path_factory.mktemp("model") / "convolution.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10), path)
    return path


@cache
def kernel_of(path: Path) -> Kernel:
    """The kernel of a model that has the most work."""
    return max(read_model(path).program().kernels, key=lambda kernel: len(kernel.params))


def greedy_first(function: PrimFunc, target: GpuTarget) -> Iterator[tuple[str, str]]:
    """The schedules of a function, those that spill first."""
    yield from sorted(gpu_schedules(function, target), key=lambda found: found[1] != GREEDY)


def only_greedy(function: PrimFunc, target: GpuTarget) -> Iterator[tuple[str, str]]:
    """Those that spill, and where there are none, all."""
    found = list(gpu_schedules(function, target))
    yield from [one for one in found if one[1] == GREEDY] or found


def spilling(kernel: Kernel, text: str, target: GpuTarget) -> bool:
    """Whether a schedule spills."""
    return spills(gpu_candidate(kernel, text, target), target, require_nvcc(target))


@pytest.mark.nvcc
def test_where_registers_suffice_the_formula_decides(model: Path) -> None:
    target, kernel = with_registers(255), kernel_of(model)
    found = fitting_defaults([kernel, kernel], target, require_nvcc(target))
    assert found == [default_gpu_schedule(kernel.function, target)] * 2


@pytest.mark.long
@pytest.mark.nvcc
def test_a_schedule_that_spills_gives_way_and_the_note_says_so(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, kernel = with_registers(FEW), kernel_of(model)
    assert spilling(kernel, next(greedy_first(kernel.function, target))[0], target)
    monkeypatch.setattr(gpu_registers, "gpu_schedules", greedy_first)
    ((text, note),) = fitting_defaults([kernel], target, require_nvcc(target))
    assert not spilling(kernel, text, target)
    assert note.endswith(f", because {GREEDY} spills registers")


@pytest.mark.long
@pytest.mark.parametrize("compiled", [pytest.param(True, marks=pytest.mark.nvcc), False])
def test_a_schedule_without_a_text_gives_way_and_the_note_says_so(
    compiled: bool, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not said to spill; with nvcc and without, the next one is taken."""
    target, kernel = with_registers(255), kernel_of(model)
    broken = Schedule(tvm.IRModule({"main": kernel.function}))  # its loops lie outside of every launch

    def broken_first(function: PrimFunc, target: GpuTarget) -> Iterator[tuple[str, str]]:
        yield trace_text(broken.trace), "no launch"
        yield from gpu_schedules(function, target)

    monkeypatch.setattr(gpu_registers, "gpu_schedules", broken_first)
    found = fitting_defaults([kernel], target, require_nvcc(target)) if compiled else printed_defaults([kernel], target)
    text, name = default_gpu_schedule(kernel.function, target)
    assert found == [(text, f"{name}, because no launch cannot be printed as CUDA")]


def test_a_kernel_without_a_schedule_that_compiles_is_named(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernel_of(model)
    broken = trace_text(Schedule(tvm.IRModule({"main": kernel.function})).trace)
    monkeypatch.setattr(gpu_registers, "gpu_schedules", lambda *_: iter([(broken, "no launch")]))
    with pytest.raises(KernelFailed, match=f"of kernel {kernel.name} compiles for .*: no launch cannot be printed"):
        printed_defaults([kernel], with_registers(255))


@pytest.mark.long
@pytest.mark.nvcc
def test_a_kernel_that_spills_under_all_schedules_is_shipped_with_a_warning(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_registers, "gpu_schedules", only_greedy)
    described = yaml.safe_load((targets_dir() / "cuda-generic.yaml").read_text())
    described |= {"name": "small", "compiler": {"nvccflags": ["-O3", "-std=c++17", *few_registers(FEW)]}}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(described))
    words = ["build", str(model), "--board", str(tmp_path / "small.yaml"), "-o", str(tmp_path / "out")]
    status = run(words)
    told = capfd.readouterr().err
    assert status == 0, told
    manifest = json.loads((tmp_path / "out/MANIFEST.json").read_text())
    used = [launch for kernel in manifest["kernels"] for launch in kernel["device"]]
    assert any(launch["spill_bytes"] for launch in used)
    report, said = (tmp_path / "out/REPORT.md").read_text(), " ".join(told.split())
    for launch in used:
        warned = f"{launch['name']} keeps {max(launch['spill_bytes'], launch['local_bytes']):,} bytes of each thread"
        assert f"| `{launch['name']}` |" in report
        assert (warned in said) == (launch["spill_bytes"] > 0)
