"""The host code of packages in CUDA, on a stand-in for CUDA's runtime: graphs, errors at each call, leaks, streams."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgetune.verify.work_copy import work_copy
from tests.bundle.bundle_sample import saved
from tests.distribution_sample import edgetune

PROGRAM = Path(__file__).with_name("cuda_host.cpp")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """y = softmax(tanh(x w) v): three layers or more, of which the first reads the input and the last writes y."""
    folder = tmp_path_factory.mktemp("host")
    random = np.random.default_rng(3)
    w, v = (random.standard_normal((64, 64)).astype(np.float32) / 8 for _ in range(2))
    layers = ["a = MatMul x w", "b = Tanh a", "c = MatMul b v", "y = Softmax c"]
    saved(folder / "small.onnx", layers, [("y", onnx.TensorProto.FLOAT)], w=w, v=v)
    done = edgetune(["build", "small.onnx", "--board", "cuda-generic", "-o", "small"], cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "small"


def compiled(package: Path, folder: Path, *flags: str) -> Path:
    """The test program with the library, for the CPU."""
    launches = sum(" * Launch:" in line or " * then:" in line for line in kernels_of(package).splitlines())
    sources = [*(package / "src").glob("*.cu"), PROGRAM]
    weights = [path for path in (package / "src").iterdir() if path.suffix in {".S", ".c"}]
    includes = [f"-I{package / name}" for name in ("include", "src", "test/cpu")]
    strict = ["-std=c++17", "-O1", "-g1", "-Wall", "-Wextra", "-Wno-unknown-pragmas", f"-DLAUNCHES={launches}", *flags]
    command = ["g++", *strict, *includes, f"-Wa,-I{package / 'src'}", "-x", "c++", *map(str, sources), "-x", "none"]
    subprocess.run([*command, *map(str, weights), "-o", "program"], cwd=folder, check=True)
    return folder / "program"


def kernels_of(package: Path) -> str:
    """The text of the kernels."""
    return (package / "src/small_kernels.cu").read_text()


@pytest.mark.long
@pytest.mark.parametrize("graph", [0, 1])
def test_graphs_errors_leaks_and_streams(package: Path, tmp_path: Path, graph: int) -> None:
    """With a graph and without: the same bits, each error is told, nothing leaks, nothing is made after init."""
    program = compiled(package, tmp_path, f"-DSMALL_GRAPH={graph}")
    x = np.random.default_rng(5).standard_normal((2, 64)).astype(np.float32)
    (tmp_path / "x").write_bytes(x.tobytes())
    done = subprocess.run([str(program), "x"], cwd=tmp_path, capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, (done.stdout[2 * 64 * 4 :], done.stderr)
    outputs = np.frombuffer(done.stdout[: 2 * 64 * 4], np.float32).reshape(2, 64)
    assert done.stdout[2 * 64 * 4 :] == b"ok\n"
    np.testing.assert_allclose(outputs.sum(axis=1), 1.0, rtol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("nbytes", [48 << 10, 64 << 10, 1 << 20])
def test_init_asks_for_shared_memory_over_48_kb(package: Path, tmp_path: Path, nbytes: int) -> None:
    """And says so where the device has less."""
    with work_copy(package) as (copy, _):
        kernels = copy / "src/small_kernels.cu"
        text, replaced = re.subn(r"(small__load\(\w+, )0, \d+\)", rf"\g<1>{nbytes}, 0)", kernels.read_text(), count=1)
        assert replaced == 1
        kernels.write_text(text.replace(", arguments, 0)", f", arguments, {nbytes})", 1))
        program = compiled(copy, tmp_path, "-DSMALL_GRAPH=1", "-O0")
    done = subprocess.run([str(program), "", str(nbytes)], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


def test_the_rule_for_graphs_is_in_the_header_with_its_numbers(package: Path) -> None:
    header = " ".join((package / "include/small.h").read_text().replace("\n * ", " ").split())
    assert re.search(r"replayed as a CUDA graph \(-DSMALL_GRAPH=0 for one by one\), since \d launches of 2 us", header)


@pytest.mark.long
def test_the_benchmark_runs_and_its_last_line_is_json(package: Path, tmp_path: Path) -> None:
    """Times are those of the stand-in: only that it works is looked at."""
    with work_copy(package) as (copy, _):
        source = copy / "test/small_bench.cu"
        text = source.read_text().replace("COPIES = 32", "COPIES = 2").replace("REPLAYS = 15", "REPLAYS = 3")
        source.write_text(text)
        sources = [*(copy / "src").glob("*.cu"), source]
        others = [path for part in ("src", "test") for path in (copy / part).iterdir() if path.suffix == ".S"]
        includes = [f"-I{copy / name}" for name in ("include", "src", "test", "test/cpu")]
        command = ["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", *includes]
        words = [f"-Wa,-I{copy / 'src'}", f"-Wa,-I{copy / 'test'}", "-x", "c++", *map(str, sources), "-x", "none"]
        subprocess.run([*command, *words, *map(str, others), "-o", "bench"], cwd=tmp_path, check=True)
    done = subprocess.run(
        ["./bench", "5", "1", "1", "samples"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    samples, last = done.stdout.splitlines()
    assert len(samples.split()) == 6
    told = json.loads(last)
    layers = json.loads((package / "MANIFEST.json").read_text())["layers"]
    assert (told["runs"], len(told["layers"]), told["device"]["capability"]) == (5, len(layers), 75)
