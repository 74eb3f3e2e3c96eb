"""The C of two packages as one translation unit: no name of one meets a name of the other."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests import flags_sample, package_sample, threads_sample

STRICT = ("-std=gnu11", "-Wall", "-Wextra", "-Werror")


def emitted(folder: Path, emit: Callable[..., object], **options: object) -> list[Path]:
    """Two packages of one model, which differ in their names alone."""
    for name in ("first", "second"):
        emit(folder / name, name=name, **options)
    return [folder / "first", folder / "second"]


def built(folder: Path) -> list[Path]:
    """Two packages whose kernels call every function of the preamble."""
    return [flags_sample.build(folder, name) for name in ("flags", "more_flags")]


SAMPLES: dict[str, Callable[[Path], list[Path]]] = {
    "every function": built,
    "threads": lambda folder: emitted(folder, threads_sample.emit),
    "weights in a file": lambda folder: emitted(folder, package_sample.emit, weights="binary", scratch=64),
}


@pytest.fixture(scope="module", params=sorted(SAMPLES))
def packages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return SAMPLES[request.param](tmp_path_factory.mktemp("packages"))


def run(command: Sequence[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{(done.stdout + done.stderr)[-3000:]}"
    return done.stdout


@pytest.mark.long
@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_both_compile_together_and_compute_what_they_did_alone(
    packages: list[Path], compiler: str, tmp_path: Path
) -> None:
    sources = [file for package in packages for file in sorted((package / "src").glob("*.c"))]
    (tmp_path / "both.c").write_text("".join(f'#include "{file}"\n' for file in sources), encoding="utf-8")
    paths = [f"-I{package / name}" for package in packages for name in ("include", "src", "test")]
    run([compiler, *STRICT, "-O1", "-msse2", *paths, "-c", "both.c", "-o", "both.o"], tmp_path)
    data = [str(file) for package in packages for file in sorted(package.glob("src/*.S"))]
    for package in packages:
        test = str(package / "test" / f"{package.name}_selftest.c")
        search = [f"-Wa,-I{one / 'src'}" for one in packages]
        run([compiler, *STRICT, *paths, *search, test, *data, "both.o", "-lm", "-pthread", "-o", "test"], tmp_path)
        assert run(["./test"], tmp_path).splitlines()[-1] == "PASS"


def test_a_header_before_the_source_is_refused_in_one_sentence(tmp_path: Path) -> None:
    """Its attributes would let a compiler take away the checks for null."""
    package_sample.emit(tmp_path / "tiny")
    text = '#include "tiny.h"\n#include "tiny.c"\n'
    words = ["gcc", "-std=gnu11", f"-I{tmp_path}/tiny/include", f"-I{tmp_path}/tiny/src", "-fsyntax-only", "-xc", "-"]
    refused = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "include tiny.c before tiny.h, or define TINY_NO_ATTRIBUTES" in refused.stderr
    subprocess.run([*words, "-DTINY_NO_ATTRIBUTES", "-Werror"], input=text, text=True, check=True)


@pytest.mark.parametrize(("api", "visible"), [(None, False), ('__attribute__((visibility("default")))', True)])
def test_the_macro_for_exports_makes_public_functions_visible(tmp_path: Path, api: str | None, visible: bool) -> None:
    package_sample.emit(tmp_path / "tiny")
    words = ["gcc", "-std=gnu11", "-shared", "-fPIC", "-fvisibility=hidden", "-Iinclude", "-Isrc", "-o", "tiny.so"]
    words += [] if api is None else [f"-DTINY_API={api}"]
    run([*words, *map(str, sorted((tmp_path / "tiny/src").glob("*.c")))], tmp_path / "tiny")
    symbols = {
        line.split()[0] for line in run(["nm", "-DP", "--defined-only", "tiny.so"], tmp_path / "tiny").splitlines()
    }
    public = {f"tiny_{name}" for name in ("init", "run", "deinit", "strerror", "build_info", "workspace_size")}
    assert {name for name in symbols if name.startswith("tiny")} == (
        public | {"tiny_set_profiler"} if visible else set()
    )
