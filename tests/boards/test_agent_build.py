"""The agent as a program: small, without warnings, and at home on boards with a glibc of 2012."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from edgetune.boards.agent.build import SOURCES, agent_folder, build_agent, build_plugin
from edgetune.boards.compiled_once import WARNINGS
from edgetune.errors import ToolchainMissing
from edgetune.target.target import load_target

TARGETS = ("host", "generic-aarch64", "generic-armv7", "generic-riscv64")
OLDEST = {"generic-riscv64": (2, 27)}  # RISC-V came to glibc with that
MOST_BYTES = 100_000


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.long
@pytest.mark.parametrize("name", TARGETS)
def test_it_asks_for_nothing_newer_than_the_oldest_glibc(name: str, cache: Path) -> None:
    symbols = subprocess.run(
        ["objdump", "-T", str(build_agent(load_target(name), cache))], capture_output=True, text=True, check=True
    ).stdout
    versions = {tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([0-9.]+)", symbols)}
    assert versions
    assert max(versions) <= OLDEST.get(name, (2, 17)), symbols
    needed = subprocess.run(
        ["objdump", "-p", str(build_agent(load_target(name), cache))], capture_output=True, text=True, check=True
    ).stdout
    libraries = re.findall(r"NEEDED +(\S+)", needed)
    assert [library for library in libraries if not library.startswith("ld-linux")] == ["libdl.so.2", "libc.so.6"]


@pytest.mark.long
@pytest.mark.parametrize("name", TARGETS)
def test_it_is_small(name: str, cache: Path) -> None:
    assert build_agent(load_target(name), cache).stat().st_size <= MOST_BYTES


@pytest.mark.long
@pytest.mark.parametrize(
    "cc", ["gcc", "clang-19", "aarch64-linux-gnu-gcc", "arm-linux-gnueabihf-gcc", "riscv64-linux-gnu-gcc"]
)
def test_compilers_have_nothing_to_say(cc: str, tmp_path: Path) -> None:
    sources = [str(agent_folder() / name) for name in (*SOURCES, "plugin/counting.c", "plugin/launch.c")]
    command = [cc, *WARNINGS, "-Werror", "-O2", "-DEDGETUNE_OWN_START", "-c", *sources]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_it_is_built_once_per_content(cache: Path) -> None:
    first = build_agent(load_target("generic-aarch64"), cache)
    stamp = first.stat().st_mtime_ns
    assert build_agent(load_target("rpi4"), cache) == first  # the same compiler: the same program
    assert first.stat().st_mtime_ns == stamp
    assert build_agent(load_target("generic-armv7"), cache) != first
    assert not [path for path in first.parent.iterdir() if path.name.startswith("build-")]


def test_a_compiler_that_is_missing_is_named(cache: Path) -> None:
    target = load_target("generic-armv7")
    target = target.model_copy(update={"compiler": target.compiler.model_copy(update={"cc": "no-such-gcc"})})
    with pytest.raises(ToolchainMissing, match=r"no-such-gcc .*'generic-armv7'.* apt-get install gcc-arm-linux"):
        build_agent(target, cache)


def test_the_plugin_has_what_qemu_looks_for(cache: Path) -> None:
    symbols = subprocess.run(
        ["objdump", "-T", str(build_plugin(cache))], capture_output=True, text=True, check=True
    ).stdout
    assert {"qemu_plugin_version", "qemu_plugin_install"} <= set(symbols.split())
