"""Packages in CUDA: built without a GPU, compiled by nvcc, checked on the CPU, which the report says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import onnx
import pytest
import yaml
from onnx import TensorProto, helper

from edgetune.errors import BoardUnavailable, ConfigError, ToolchainMissing, WrongResult
from edgetune.resources import targets_dir
from edgetune.target.cuda_toolkit import find_nvcc, has_gpu
from edgetune.target.tool_process import run_tool
from edgetune.verify.work_copy import work_copy
from tests.distribution_sample import edgetune

MODEL = Path(__file__).parents[2] / "examples/models/ds_cnn.onnx"
BOARD = "cuda-generic"
_PRODUCT = {"a": [128, 256], "b": [256, 128], "y": [128, 128]}
ON_CPU = "this machine's CPU instead of a GPU"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cuda")
    done = edgetune(["build", str(MODEL), "--board", BOARD, "-o", "ds_cnn"], cwd=folder)
    assert done.returncode == 0, done.stderr
    assert has_gpu() or f"self-test on {ON_CPU}" in done.stderr
    return folder / "ds_cnn"


@pytest.mark.long
def test_it_is_verified_with_fresh_inputs_and_the_report_says_where(package: Path) -> None:
    done = edgetune(["verify", "ds_cnn", "--model", str(MODEL), "--json"], cwd=package.parent)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["passed"], report["golden_cases"], report["fresh_cases"]) == (True, 3, 2)
    assert report["ran_on"] == ("this machine" if has_gpu() else ON_CPU)


def test_its_readme_declares_what_it_uses_and_its_papers_speak_of_a_gpu(package: Path, tmp_path: Path) -> None:
    readme, report = ((package / f"{name}.md").read_text() for name in ("README", "REPORT"))
    (tmp_path / "use.c").write_text(readme.partition("```c\n")[2].partition("```")[0])
    command = ["gcc", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{package}/include", "use.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert "## Device memory\n" in report
    assert "## Code and weights\n" in report
    assert not re.search(r"\bflash\b|\bRAM\b", readme + report, re.IGNORECASE)


def test_make_installs_it_and_pkg_config_says_how_to_link(package: Path, tmp_path: Path) -> None:
    """The library itself, which nvcc makes, is a stand-in."""
    with work_copy(package) as (copy, _):
        (copy / "lib").mkdir()
        (copy / "lib/libds_cnn.a").write_text("a library\n")
        subprocess.run(["make", "-s", "-o", "lib", "install", f"PREFIX={tmp_path}"], cwd=copy, check=True)
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert found == ["include/ds_cnn.h", "lib/libds_cnn.a", "lib/pkgconfig/ds_cnn.pc"]
    said = (tmp_path / "lib/pkgconfig/ds_cnn.pc").read_text()
    assert f"prefix={tmp_path}\nincludedir=${{prefix}}/include\nlibdir=${{prefix}}/lib\n" in said
    assert 'Libs: -L"${libdir}" -lds_cnn -lcudart -lstdc++\n' in said


@pytest.mark.long
@pytest.mark.nvcc
def test_make_compiles_it_for_several_architectures_without_a_warning(package: Path) -> None:
    nvcc = find_nvcc()
    assert nvcc is not None
    with work_copy(package) as (copy, _):
        done = run_tool(["make", "-s", f"NVCC={nvcc}", "CUDA_ARCH=75 80 87 90"], timeout_s=300, folder=copy)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert (copy / "lib/libds_cnn.a").is_file()


@pytest.mark.long
def test_products_of_attention_are_kernels_of_their_own(tmp_path: Path) -> None:
    """As one kernel, whose rows one thread walks, they would not be tiles of blocks. On CPUs they are one."""
    shapes = {"q": [1, 4, 64, 32], "k": [1, 4, 32, 64], "v": [1, 4, 64, 32]}
    names = (("MatMul", ["q", "k"], "scores"), ("Softmax", ["scores"], "weights"), ("MatMul", ["weights", "v"], "y"))
    nodes = [helper.make_node(operator, given, [made]) for operator, given, made in names]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, shapes["q"])
    onnx.save(helper.make_model(helper.make_graph(nodes, "attention", inputs, [output])), tmp_path / "attention.onnx")
    kernels = {}
    for board in (BOARD, "generic-x86_64"):
        done = edgetune(["build", "attention.onnx", "--board", board, "-o", board], cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        manifest = json.loads((tmp_path / board / "MANIFEST.json").read_text())
        kernels[board] = [name for kernel in manifest["kernels"] for name in kernel["sources"]]
    assert kernels == {BOARD: ["matmul", "softmax", "matmul"], "generic-x86_64": ["attention"]}


@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize(("board", "arch"), [("h200", 90), ("jetson-orin", 87)])
def test_a_named_gpu_gets_a_package_for_its_own_architecture(board: str, arch: int, tmp_path: Path) -> None:
    """In fp16, so that kernels for its tensor cores are among those that nvcc reads."""
    words = ["build", str(MODEL), "--board", board, "--precision", "fp16", "-o", "ds_cnn"]
    done = edgetune(words, cwd=tmp_path, timeout_s=600)
    assert done.returncode == 0, done.stderr
    with work_copy(tmp_path / "ds_cnn") as (copy, _):
        assert f"CUDA_ARCH ?= {arch}\n" in (copy / "Makefile").read_text()
        made = run_tool(["make", "-s", f"NVCC={find_nvcc()}"], timeout_s=300, folder=copy)
        assert (made.returncode, made.stdout, made.stderr) == (0, "", "")


@pytest.mark.long
@pytest.mark.nvcc
def test_a_package_whose_copies_run_ahead_passes_its_self_test_and_compiles(tmp_path: Path) -> None:
    """Its file of kernels includes what asynchronous copies need; also for a GPU that copies at once."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in _PRODUCT.items()]
    product = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["y"])], "product", ends[:2], ends[2:])
    onnx.save(helper.make_model(product), tmp_path / "product.onnx")
    done = edgetune(["build", "product.onnx", "--board", "h200", "-o", "product"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "product/src/product_kernels.cu").read_text()
    assert "#ifndef CUDA_ON_CPU\n#include <cuda_pipeline_primitives.h>\n#endif\n" in text
    assert re.search(r"copy \d steps? ahead", text)
    with work_copy(tmp_path / "product") as (copy, _):
        made = run_tool(["make", "-s", f"NVCC={find_nvcc()}", "CUDA_ARCH=75 80 90"], timeout_s=300, folder=copy)
        assert (made.returncode, made.stdout, made.stderr) == (0, "", "")


@pytest.mark.long
@pytest.mark.nvcc
def test_the_report_and_the_manifest_say_what_each_kernel_uses(package: Path) -> None:
    report = (package / "REPORT.md").read_text()
    for kernel in json.loads((package / "MANIFEST.json").read_text())["kernels"]:
        (used,) = kernel["device"]
        assert used["name"] == f"{kernel['symbol']}_kernel"
        assert 0 < used["registers"] <= 255
        assert (used["local_bytes"], used["spill_bytes"]) == (0, 0)
        row = rf"`{used['name']}` \| \d+ \| {used['registers']} \| {used['shared_bytes']:,} \| 0 \| 0 \|"
        assert re.search(row, report)


@pytest.mark.long
def test_a_kernel_that_computes_something_else_fails_the_check(package: Path) -> None:
    """The hashes of the manifest are those of the altered text: only the outputs are wrong."""
    from edgetune.package.manifest import file_table

    altered = package.parent / "altered"
    shutil.copytree(package, altered)
    kernels = altered / "src/ds_cnn_kernels.cu"
    kernels.write_text(kernels.read_text().replace("acc / 125.0f", "acc / 124.0f").replace("/ 125.0f", "/ 100.0f"))
    manifest = json.loads((altered / "MANIFEST.json").read_text())
    (altered / "MANIFEST.json").write_text(json.dumps(manifest | {"files": file_table(altered)}))
    done = edgetune(["verify", "altered"], cwd=package.parent)
    assert done.returncode == WrongResult.exit_code, done.stderr
    assert "output 'out' of golden case 0 is off by" in done.stderr


@pytest.mark.long
def test_the_same_model_gives_the_same_bytes(package: Path) -> None:
    done = edgetune(["build", str(MODEL), "--board", BOARD, "-o", "again"], cwd=package.parent)
    assert done.returncode == 0, done.stderr
    assert (package.parent / "again/MANIFEST.json").read_bytes() == (package / "MANIFEST.json").read_bytes()


def test_its_header_is_that_of_c_and_of_cpp(package: Path, tmp_path: Path) -> None:
    for suffix, cc in ((".c", "gcc"), (".cpp", "g++")):
        source = tmp_path / f"use{suffix}"
        source.write_text('#include "ds_cnn.h"\nint main(void) { return ds_cnn_workspace_size() == 0; }\n')
        command = [cc, "-Wall", "-Wextra", "-Werror", f"-I{package / 'include'}", "-c", str(source), "-o", "use.o"]
        subprocess.run(command, cwd=tmp_path, check=True)


_MISPLACED = """
#include "cuda_runtime.h"
#include "ds_cnn.h"
int main()
{
    static unsigned char host[DS_CNN_WORKSPACE_BYTES] __attribute__((aligned(256)));
    ds_cnn_ctx ctx;
    ds_cnn_inputs in;
    ds_cnn_outputs out;
    void *device;

    if (ds_cnn_init(&ctx, nullptr, 0) || cudaMalloc(&device, DS_CNN_WORKSPACE_BYTES))
        return 1;
    for (int which = 0; which < 2; which++) { /* an input is misplaced, then an output */
        void *first = which ? device : host, *second = which ? host : device;
        in.in0 = (const float *)first;
        out.out = (float *)second;
        const ds_cnn_status on = ds_cnn_run_on(&ctx, nullptr, &in, &out), run = ds_cnn_run(&ctx, &in, &out);
        if (on != DS_CNN_ERR_TENSOR_MEMORY || run != DS_CNN_ERR_TENSOR_MEMORY)
            return 2;
    }
    puts(ds_cnn_strerror(DS_CNN_ERR_TENSOR_MEMORY));
    return 0;
}
"""


@pytest.mark.long
def test_pointers_to_the_wrong_memory_are_a_status_with_a_sentence(package: Path, tmp_path: Path) -> None:
    (tmp_path / "use.cpp").write_text(_MISPLACED)
    sources = [str(package / "src" / name) for name in ("ds_cnn.cu", "ds_cnn_kernels.cu")]
    weights = [str(path) for path in (package / "src").iterdir() if path.suffix in {".S", ".c"}]
    includes = [f"-I{package / name}" for name in ("include", "src", "test/cpu")]
    command = ["g++", "-O0", "-std=c++17", *includes, "-x", "c++", *sources, "use.cpp", "-x", "none", *weights]
    subprocess.run([*command, "-o", "use"], cwd=tmp_path, check=True)
    done = subprocess.run(["./use"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "ds_cnn_run() takes host pointers, ds_cnn_run_on() device pointers" in done.stdout


def test_lines_of_all_sources_fit_the_page(package: Path) -> None:
    """Lines of the preprocessor name layers, and the build's facts are one string."""
    for source in (path for part in ("src", "include", "test") for path in (package / part).glob("*.[hc]*")):
        if source.name != "ds_cnn_vectors.h":
            lines = [line for line in source.read_text().splitlines() if not line.startswith(("#define", "#endif"))]
            assert [line for line in lines if len(line) > 120 and "model sha256" not in line] == [], source.name


def test_the_benchmark_has_memory_for_the_tensors_of_a_kernel_and_no_more(package: Path) -> None:
    """Convolution, 1x1, 64 channels to 64 on 25x5 pixels: input, weights, bias, output, each in whole 256 bytes."""
    text = (package / "test/ds_cnn_bench.cu").read_text()
    sizes = [int(size) for size in re.findall(r"\d+", text.partition("kernel_bytes[] = {")[2].partition("}")[0])]
    assert sizes[2] == 2 * 32000 + 16384 + 256


def test_kernels_are_written_for_readers(package: Path) -> None:
    text = (package / "src/ds_cnn_kernels.cu").read_text()
    assert max(map(len, text.splitlines())) <= 120
    assert not re.search(r"cse_v|red_buf|T_\w+", text)
    assert text.count(" * Launch:    ") == 6
    manifest = json.loads((package / "MANIFEST.json").read_text())
    for kernel in manifest["kernels"]:
        head = text[: text.index(f"\n{kernel['symbol']}_kernel(")].rpartition("/*")[2]
        said = " ".join(head.replace(" * ", " ").split())
        assert f"Operators: {', '.join(kernel['sources'])} Tensors: " in said
        assert f"Schedule: {kernel['provenance']['schedule']} Launch: " in said
    for declared in re.findall(r"const int32_t (\w+) = ", text):
        assert len(re.findall(rf"\b{declared}\b", text)) > 1


@pytest.mark.long
def test_without_a_gpu_it_cannot_be_tuned_and_one_sentence_says_so(package: Path) -> None:
    words = ["tune", str(MODEL), "--board", BOARD, "--trials", "1"]
    done = edgetune(words, cwd=package.parent, environment={"CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == BoardUnavailable.exit_code
    assert "this machine has no NVIDIA GPU" in done.stderr
    assert "`--via bundle`" in done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"backend": "c-linux"}, "'backend' is for CPUs, and 'kind' is gpu: write 'backend: cuda'"),
        ({"reach": "ssh"}, "'reach' must be none, not 'ssh': candidates of a GPU are timed in rounds"),
        ({"l1_bytes": 32768}, "'l1_bytes'"),
    ],
)
def test_a_target_file_of_a_gpu_that_is_wrong_gets_one_sentence(
    changes: dict[str, object], sentence: str, tmp_path: Path
) -> None:
    target = yaml.safe_load((targets_dir() / f"{BOARD}.yaml").read_text())
    (tmp_path / "odd.yaml").write_text(yaml.safe_dump(target | {"name": "odd"} | changes))
    done = edgetune(["build", str(MODEL), "--board", "odd.yaml"], cwd=tmp_path)
    assert done.returncode == ConfigError.exit_code
    assert sentence in done.stderr


@pytest.mark.long
def test_a_target_file_of_a_cpu_cannot_name_the_backend(tmp_path: Path) -> None:
    target = yaml.safe_load((targets_dir() / "generic-x86_64.yaml").read_text())
    (tmp_path / "odd.yaml").write_text(yaml.safe_dump(target | {"name": "odd", "backend": "cuda"}))
    done = edgetune(["build", str(MODEL), "--board", "odd.yaml"], cwd=tmp_path)
    assert done.returncode == ConfigError.exit_code
    assert "'backend' is 'cuda', which is for GPUs" in done.stderr


@pytest.mark.long
def test_a_compiler_that_is_missing_is_named(tmp_path: Path) -> None:
    target = yaml.safe_load((targets_dir() / f"{BOARD}.yaml").read_text())
    changes = {"name": "odd", "compiler": {"nvcc": "nvcc-of-nowhere"}}
    (tmp_path / "odd.yaml").write_text(yaml.safe_dump(target | changes))
    small = MODEL.with_name("ad_ae.onnx")
    done = edgetune(["build", str(small), "--board", "odd.yaml", "-o", "out"], cwd=tmp_path)
    assert done.returncode == ToolchainMissing.exit_code, done.stderr
    assert "'odd' names the compiler 'nvcc-of-nowhere', which is not there" in done.stderr
    assert not (tmp_path / "out").exists()
