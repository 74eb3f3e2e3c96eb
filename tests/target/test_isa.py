"""Instruction sets: what their files state, and that nothing outside them names one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from edgetune.errors import ConfigError
from edgetune.package.native import make_words, runs_here
from edgetune.target.isa import INSTRUCTION_SETS, InstructionSet, Isa
from edgetune.target.isa.cpu_features import CpuChecks, CpuidCheck
from edgetune.target.libc import libc_package

ROOT = Path(__file__).parents[2]
MEMBERS = ROOT / "edgetune" / "target" / "isa"


def test_x86_features_of_one_register_are_one_check() -> None:
    found = INSTRUCTION_SETS["x86_64"].cpu_checks(("avx2", "bmi2", "avx512f", "sse3", "avx2"))
    assert found == CpuChecks(
        ("avx2", "bmi2", "avx512f", "sse3", "avx2"),
        cpuid=(
            CpuidCheck(1, 0, "ecx", 1, ("sse3",)),
            CpuidCheck(7, 0, "ebx", 1 << 5 | 1 << 8 | 1 << 16, ("avx2", "bmi2", "avx512f", "avx2")),
        ),
        xcr0=0xE6,
    )


def test_arm_features_lie_in_two_words() -> None:
    wide = INSTRUCTION_SETS["aarch64"].cpu_checks(("asimd", "asimddp", "i8mm", "sve2"))
    assert (wide.hwcap, wide.hwcap2, wide.cpuid, wide.xcr0) == (1 << 1 | 1 << 20, 1 << 13 | 1 << 1, (), 0)
    assert INSTRUCTION_SETS["armv7"].cpu_checks(("neon", "vfpv4")).hwcap == 1 << 12 | 1 << 16


@pytest.mark.parametrize("name", INSTRUCTION_SETS)
def test_a_feature_that_cannot_be_checked_is_refused(name: str) -> None:
    isa = INSTRUCTION_SETS[name]
    with pytest.raises(ConfigError, match=rf"'warp' is not a feature of {name} that can be checked: "):
        isa.cpu_checks((*isa.features, "warp"))
    assert isa.cpu_checks(()) == CpuChecks(())
    if not isa.features:
        with pytest.raises(ConfigError, match="leave cpu_checks out"):
            isa.cpu_checks(("v",))


def test_each_machine_has_kernels_of_one_instruction_set() -> None:
    owners = [machine for isa in INSTRUCTION_SETS.values() for machine in isa.machines]
    assert len(owners) == len(set(owners))
    for isa in INSTRUCTION_SETS.values():
        wider = [other for other in INSTRUCTION_SETS.values() if set(isa.wider_machines) & set(other.machines)]
        assert all(other.bits > isa.bits for other in wider)
        assert (isa.describe_host is None) or isa.host_triple


def test_cross_compilers_get_their_c_library() -> None:
    assert libc_package("aarch64-linux-gnu-gcc-12") == "libc6-dev-arm64-cross"
    assert libc_package("clang", ("--target=arm-linux-gnueabihf",)) == "libc6-dev-armhf-cross"
    assert libc_package("gcc") == "libc6-dev"


def test_a_file_that_names_no_instruction_set_is_refused() -> None:
    known = TypeAdapter[str](Isa)
    assert [known.validate_python(name) for name in INSTRUCTION_SETS] == list(INSTRUCTION_SETS)
    with pytest.raises(ValidationError, match="Input should be 'x86_64', 'aarch64'"):
        known.validate_python("vax")


def test_an_instruction_set_that_runs_no_linux_is_native_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(INSTRUCTION_SETS, "bare", InstructionSet("bare", (), 32))
    assert make_words("bare") == ()
    assert not runs_here("bare")
    assert INSTRUCTION_SETS["bare"].machine == "bare"


@pytest.mark.long
def test_no_file_but_its_own_asks_for_an_instruction_set_by_name() -> None:
    """A string that is the name of one, outside its file, is a comparison or a table: both belong into the file."""
    found = []
    for path in (ROOT / "edgetune").rglob("*.py"):
        if MEMBERS in path.parents:
            continue
        found += [
            f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}"
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Constant) and node.value in INSTRUCTION_SETS
        ]
    names = "|".join(map(re.escape, INSTRUCTION_SETS))
    for path in (ROOT / "templates").rglob("*.j2"):
        found += [
            f"{path.relative_to(ROOT)}: {hit}" for hit in re.findall(rf"""["'](?:{names})["']""", path.read_text())
        ]
    assert found == []
