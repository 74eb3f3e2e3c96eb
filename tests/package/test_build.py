"""Emitted packages under real compilers, sanitizers and emulators."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from edgetune.package.golden import GoldenCases
from edgetune.package.native import runs_here
from edgetune.package.provenance import KernelProvenance
from edgetune.verify.verify import verify
from tests import package_sample as sample

WARNINGS = "-Wall -Wextra -Wconversion -Wshadow -Werror"


def make(folder: Path, *words: str) -> str:
    done = subprocess.run(["make", "-s", *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def last(text: str) -> str:
    return text.strip().splitlines()[-1]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "package"
    sample.emit(folder, scratch=64)
    return folder


def copy_of(package: Path, place: Path) -> Path:
    return Path(shutil.copytree(package, place / "package"))


@pytest.mark.long
@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_no_warning_and_a_passing_self_test(tiny: Path, tmp_path: Path, compiler: str) -> None:
    folder = copy_of(tiny, tmp_path)
    assert last(make(folder, f"CC={compiler}", f"WARNINGS={WARNINGS}", "selftest", "example")) == "PASS"
    assert (
        "y[0] = "
        in subprocess.run(["build/tiny_example"], cwd=folder, capture_output=True, text=True, check=True).stdout
    )
    assert make(folder, f"CC={compiler}", f"WARNINGS={WARNINGS}", "bench", "BENCH_ARGS=12 0.01").startswith(
        '{"median_us": '
    )
    assert "workspace 320 bytes" in make(folder, f"CC={compiler}", "size")


@pytest.mark.long
@pytest.mark.parametrize(
    ("compiler", "weights"), [("gcc", "text"), ("clang-19", "text"), ("gcc", "binary"), ("clang-19", "external")]
)
def test_sanitizers_find_nothing(tmp_path: Path, compiler: str, weights: str) -> None:
    sample.emit(tmp_path / "p", weights=weights, scratch=64, measure=False)
    flags = "-O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all"
    assert last(make(tmp_path / "p", f"CC={compiler}", f"CFLAGS={flags}", f"WARNINGS={WARNINGS}", "selftest")) == "PASS"


def test_the_library_leaves_nothing_undefined_and_writes_no_globals(tiny: Path, tmp_path: Path) -> None:
    folder = copy_of(tiny, tmp_path)
    make(folder, "lib")
    symbols = subprocess.run(
        ["nm", "-P", "lib/libtiny.a"], cwd=folder, capture_output=True, text=True, check=True
    ).stdout
    pairs = re.findall(r"^(\S+) (\w)", symbols, re.MULTILINE)
    defined = {name for name, kind in pairs if kind not in "UWw"}
    undefined = {name for name, kind in pairs if kind in "UWw"} - defined
    assert undefined <= {"memcpy", "memset", "memmove", "memcmp", "_GLOBAL_OFFSET_TABLE_"}
    assert not [name for name, kind in pairs if kind in "dDbBCcsS"]
    assert all(name.startswith("tiny_") for name, kind in pairs if kind.isupper() and kind != "U")


@pytest.mark.long
@pytest.mark.parametrize(
    ("board", "width", "weights"),
    [
        ("generic-aarch64", 8, "text"),
        ("rpi5", 300_000, "binary"),
        ("generic-armv7", 8, "binary"),
        ("generic-armv7", 8, "text"),
    ],
)
def test_cross_built_packages_pass_under_the_emulator(tmp_path: Path, board: str, width: int, weights: str) -> None:
    sample.emit(tmp_path / "p", target=sample.arm(board), width=width, weights=weights, scratch=64)
    out = make(tmp_path / "p", f"WARNINGS={WARNINGS}", "selftest", "example")
    assert last(out) == "PASS"


@pytest.mark.parametrize(
    ("board", "emulator"),
    [
        ("rpi5", "qemu-aarch64 -cpu cortex-a53 -L /usr/aarch64-linux-gnu"),
        ("generic-armv7", "qemu-arm -cpu cortex-a9 -L /usr/arm-linux-gnueabihf"),
    ],
)
def test_a_cpu_without_the_instructions_is_refused_not_crashed(tmp_path: Path, board: str, emulator: str) -> None:
    sample.emit(tmp_path / "p", target=sample.arm(board), measure=False)
    done = subprocess.run(
        ["make", "-s", "selftest", f"RUN={emulator}"], cwd=tmp_path / "p", capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert last(done.stdout) == "FAIL: this CPU lacks instructions that the kernels were compiled for"


def test_the_x86_check_refuses_what_this_machine_lacks(tmp_path: Path) -> None:
    # AVX-512 FP16 with AMX-era extras: if a machine had all of these, the check would rightly pass.
    checks = ("sse2", "avx512fp16", "avx512vbmi2", "avx512bitalg", "avx512ifma", "avxvnni", "avx512bf16")
    listed = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    target = sample.generic_x86().model_copy(update={"cpu_checks": checks})
    sample.emit(tmp_path / "p", target=target, measure=False)
    done = subprocess.run(["make", "-s", "selftest"], cwd=tmp_path / "p", capture_output=True, text=True, check=False)
    names = {
        "avx512vbmi2": "avx512_vbmi2",
        "avx512bitalg": "avx512_bitalg",
        "avxvnni": "avx_vnni",
        "avx512bf16": "avx512_bf16",
    }
    names |= {"avx512fp16": "avx512_fp16"}
    complete = all(names.get(check, check) in listed for check in checks)
    assert last(done.stdout) == (
        "PASS" if complete else "FAIL: this CPU lacks instructions that the kernels were compiled for"
    )


@pytest.mark.long
def test_two_packages_link_into_one_program(tmp_path: Path) -> None:
    sample.emit(tmp_path / "a", name="kws", measure=False)
    sample.emit(tmp_path / "b", name="kws k", width=16, scratch=64, measure=False)
    for folder in ("a", "b"):
        make(tmp_path / folder, "lib")
    main = """
        #include "kws.h"
        #include "kws_k.h"
        static kws_ctx a; static kws_k_ctx b;
        static _Alignas(64) unsigned char wa[KWS_WORKSPACE_BYTES], wb[KWS_K_WORKSPACE_BYTES];
        static float xa[32], ya[32], xb[64], yb[64];
        int main(void)
        {
            const kws_inputs ia = {xa}; const kws_outputs oa = {ya};
            const kws_k_inputs ib = {xb}; const kws_k_outputs ob = {yb};
            if (kws_init(&a, wa, sizeof wa) || kws_k_init(&b, wb, sizeof wb)) return 1;
            if (kws_run(&a, &ia, &oa) || kws_k_run(&b, &ib, &ob) || kws_run(&a, &ia, &oa)) return 2;
            return ya[0] == yb[0] ? 0 : 3;
        }
    """
    (tmp_path / "main.c").write_text(main, encoding="ascii")
    command = ["gcc", "-std=gnu11", "-Ia/include", "-Ib/include", "main.c", "a/lib/libkws.a", "b/lib/libkws_k.a", "-lm"]
    subprocess.run([*command, "-o", "both"], cwd=tmp_path, check=True)
    assert subprocess.run([str(tmp_path / "both")], check=False).returncode == 0


def test_overlapping_tensors_are_refused_with_a_status(tmp_path: Path) -> None:
    model, made, cases = sample.copies([("float32", (8,)), ("int8", (32,))])
    sample.emit_copies(tmp_path / "p", model, made, cases, measure=False)
    make(tmp_path / "p", "lib")
    main = """
        #include "copies.h"
        static copies_ctx c;
        static _Alignas(64) unsigned char w[COPIES_WORKSPACE_BYTES], m[256];
        #define F(at) ((float *)(void *)(m + (at)))
        #define B(at) ((int8_t *)(m + (at)))
        static copies_status run(int a, int b, int x, int y)
        {
            const copies_inputs i = {F(a), B(b)}; const copies_outputs o = {F(x), B(y)};
            return copies_run(&c, &i, &o);
        }
        int main(void)
        {
            const copies_inputs in_workspace = {F(0), (int8_t *)w + sizeof w - 1};
            const copies_outputs o = {F(64), B(96)};
            if (copies_init(&c, w, sizeof w)) return 1;
            if (run(0, 32, 64, 96) != COPIES_OK) return 2;
            if (run(0, 0, 64, 96) != COPIES_OK) return 3; /* inputs are only read */
            if (run(0, 32, 28, 96) != COPIES_ERR_TENSOR_OVERLAP) return 4;
            if (run(0, 95, 64, 160) != COPIES_ERR_TENSOR_OVERLAP) return 5;
            if (run(0, 32, 96, 127) != COPIES_ERR_TENSOR_OVERLAP) return 6;
            if (run(0, 32, 64, 96) != COPIES_OK) return 7;
            return copies_run(&c, &in_workspace, &o) == COPIES_ERR_TENSOR_OVERLAP ? 0 : 8;
        }
    """
    (tmp_path / "main.c").write_text(main, encoding="ascii")
    command = ["gcc", "-std=gnu11", "-Ip/include", "main.c", "p/lib/libcopies.a", "-lm"]
    names = (tmp_path / "p/include/copies.h").read_text(encoding="ascii")
    assert "COPIES_ERR_TENSOR_OVERLAP = -7" in names
    subprocess.run([*command, "-o", "overlap"], cwd=tmp_path, check=True)
    assert subprocess.run([str(tmp_path / "overlap")], check=False).returncode == 0


@pytest.mark.parametrize(("compiler", "standard"), [("g++", "c++11"), ("clang++-19", "c++20"), ("gcc", "c99")])
def test_the_header_stands_alone_in_c_and_cpp(tmp_path: Path, compiler: str, standard: str) -> None:
    sample.emit(tmp_path / "p", name="class", ends=("new", "linux"), weights="external", measure=False)
    language = "c" if standard == "c99" else "c++"
    command = [
        compiler,
        f"-std={standard}",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Werror",
        "-fsyntax-only",
        "-x",
        language,
    ]
    subprocess.run([*command, "p/include/class_net.h"], cwd=tmp_path, check=True)


def test_a_header_of_another_package_does_not_compile(tmp_path: Path) -> None:
    sample.emit(tmp_path / "p", measure=False)
    sample.emit(tmp_path / "q", scratch=64, measure=False)
    shutil.copy(tmp_path / "q/include/tiny.h", tmp_path / "p/include/tiny.h")
    done = subprocess.run(["make", "-s", "lib"], cwd=tmp_path / "p", capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "are of different packages" in done.stderr


@pytest.mark.long
def test_hostile_names_compile_and_pass(tmp_path: Path) -> None:
    sample.emit(
        tmp_path / "p",
        name='*/ "\\\n??/',
        ends=(sample.HOSTILE, '"); exit(0); ("%n\\'),
        model_file='../../evil "name.onnx',
        measure=False,
    )
    for compiler in ("gcc", "clang-19"):
        words = (f"CC={compiler}", f"WARNINGS={WARNINGS} -trigraphs", "selftest", "example")
        assert last(make(tmp_path / "p", *words)) == "PASS"
    for path in (tmp_path / "p").rglob("*.[ch]"):
        path.read_bytes().decode("ascii")


@pytest.mark.parametrize(
    ("board", "machine", "width", "native"),
    [
        ("generic-armv7", "armv7l", "32", True),
        ("generic-armv7", "armv7l", "", True),
        ("generic-armv7", "aarch64", "32", True),
        ("generic-armv7", "aarch64", "64", False),
        ("rpi4", "aarch64", "64", True),
        ("rpi4", "aarch64", "32", False),
        ("rpi4", "x86_64", "64", False),
        ("generic-x86_64", "x86_64", "64", True),
        ("generic-x86_64", "aarch64", "64", False),
    ],
)
def test_what_is_native_goes_by_the_userland(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, board: str, machine: str, width: str, native: bool
) -> None:
    """A 32-bit system on a 64-bit kernel is the target itself: no emulator, its own compiler."""
    sample.emit(tmp_path / "p", target=sample.arm(board), measure=False)
    (tmp_path / "bin").mkdir()
    for tool, answer in (("uname", machine), ("getconf", width)):
        (tmp_path / "bin" / tool).write_text(f"#!/bin/sh\necho {answer}\n", encoding="ascii")
        (tmp_path / "bin" / tool).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    told = make(tmp_path / "p", "--eval=show: ; @echo '$(RUN)|$(CC)'", "show")
    assert (told.strip() == "|gcc") == native, told
    if width:
        monkeypatch.setattr("platform.machine", lambda: machine)
        monkeypatch.setattr("struct.calcsize", lambda _: int(width) // 8)
        assert runs_here(sample.arm(board).isa) == native


def test_a_model_called_example_links(tmp_path: Path) -> None:
    """The library's own build/example.o and the object of examples/main.c are two."""
    sample.emit(tmp_path / "p", name="example", measure=False)
    assert last(make(tmp_path / "p", f"WARNINGS={WARNINGS}", "selftest", "example")) == "PASS"


@pytest.mark.long
def test_large_vectors_go_into_a_binary_file(tmp_path: Path) -> None:
    sample.emit(tmp_path / "p", width=20_000, measure=False)
    assert last(make(tmp_path / "p", f"WARNINGS={WARNINGS}", "selftest")) == "PASS"
    assert (tmp_path / "p/test/tiny_vectors.bin").stat().st_size > 1_900_000
    assert max(path.stat().st_size for path in (tmp_path / "p").rglob("*.[ch]")) < 16 * 2**20


@pytest.mark.long
def test_other_flags_rebuild_everything(tiny: Path, tmp_path: Path) -> None:
    folder = copy_of(tiny, tmp_path)
    make(folder, "lib")
    before = (folder / "lib/libtiny.a").read_bytes()
    make(folder, "lib", "CFLAGS=-O0")
    assert (folder / "lib/libtiny.a").read_bytes() != before
    make(folder, "lib", "OBJDIR=elsewhere")
    assert (folder / "lib/libtiny.a").read_bytes() == before


def test_weights_go_where_the_linker_section_says(tmp_path: Path) -> None:
    for weights in ("text", "binary"):
        sample.emit(tmp_path / weights, weights=weights, measure=False)
        make(tmp_path / weights, "lib", "CFLAGS=-DTINY_WEIGHTS_SECTION='\".ext_flash\"'")
        listing = subprocess.run(
            ["objdump", "-h", "lib/libtiny.a"], cwd=tmp_path / weights, capture_output=True, text=True, check=True
        ).stdout
        assert ".ext_flash" in listing


@pytest.mark.long
@pytest.mark.parametrize("weights", ["binary", "external"])
def test_cmake_builds_and_passes_too(tmp_path: Path, weights: str) -> None:
    sample.emit(tmp_path / "a package", weights=weights, measure=False)
    for command in (
        ["cmake", "-S", "a package", "-B", "out", "-DCMAKE_C_COMPILER=gcc"],
        ["cmake", "--build", "out"],
        ["ctest", "--test-dir", "out", "--output-on-failure"],
    ):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_cmake_gives_the_abi_to_whatever_links_with_the_library(tmp_path: Path) -> None:
    """Without it, a compiler that is soft-float by default cannot link the self-test."""
    target = sample.arm("generic-armv7")
    sample.emit(tmp_path / "p", target=target, measure=False)
    words = [
        f"-DCMAKE_C_COMPILER={target.compiler.cc}",
        "-DCMAKE_SYSTEM_NAME=Linux",
        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
    ]
    subprocess.run(["cmake", "-S", "p", "-B", "out", *words], cwd=tmp_path, check=True, capture_output=True)
    commands = json.loads((tmp_path / "out/compile_commands.json").read_text(encoding="utf-8"))
    links = [path.read_text(encoding="utf-8") for path in (tmp_path / "out").rglob("link.txt") if "tiny_" in str(path)]
    assert len(commands) > len(links) == 3
    assert all("-mfloat-abi=hard" in text for text in (*links, *(command["command"] for command in commands)))


def test_the_self_test_notices_a_wrong_kernel_and_a_stray_write(tmp_path: Path) -> None:
    sample.emit(tmp_path / "p", measure=False)
    kernels = tmp_path / "p/src/tiny_kernels.c"
    good = kernels.read_text(encoding="ascii")
    for wrong, complaint in (
        (good.replace("a[i] + b[i]", "a[i] - b[i]"), "FAIL: an output is too far from its golden vector"),
        (good.replace("i < 32", "i < 33", 1), "FAIL: something was written beside the workspace"),
    ):
        kernels.write_text(wrong, encoding="ascii")
        done = subprocess.run(
            ["make", "-s", "selftest"], cwd=tmp_path / "p", capture_output=True, text=True, check=False
        )
        assert done.returncode != 0
        assert last(done.stdout).startswith("FAIL (")
        if "beside" not in complaint:
            assert complaint in done.stdout


@pytest.mark.long
def test_every_element_type_and_odd_shapes(tmp_path: Path) -> None:
    dtypes = [
        "float32",
        "float64",
        "float16",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "bool",
    ]
    shapes = {"float32": (), "int8": (0, 4), "bool": (1, 1, 3)}
    model, made, cases = sample.copies([(dtype, shapes.get(dtype, (2, 3))) for dtype in dtypes])
    sample.emit_copies(tmp_path / "p", model, made, cases)
    for compiler in ("gcc", "clang-19"):
        words = (
            f"CC={compiler}",
            f"WARNINGS={WARNINGS}",
            "CFLAGS=-O1 -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all",
            "selftest",
            "example",
        )
        assert last(make(tmp_path / "p", *words)) == "PASS"
    report = verify(tmp_path / "p", fresh=GoldenCases(cases))
    assert len(report.outputs) == 2 * len(dtypes)


@pytest.mark.long
def test_a_model_without_inputs(tmp_path: Path) -> None:
    model, made, cases = sample.copies([("float32", (4,))], inputs=False)
    sample.write(sample.compiled(model, made, [KernelProvenance("33" * 32, "fixed")]), cases, tmp_path / "p")
    assert last(
        make(tmp_path / "p", f"WARNINGS={WARNINGS}", "selftest", "example", "bench", "BENCH_ARGS=3")
    ).startswith("{")
    assert verify(tmp_path / "p", fresh=GoldenCases(cases)).fresh_cases == 3
