"""Names in a user's own target file: LLVM, the compiler and the emulator are asked, and the nearest name is offered."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tvm.target import codegen

from edgetune.errors import ConfigError, NothingRunsIt
from edgetune.pipeline.boards import diagnose, load_board
from edgetune.resources import targets_dir
from edgetune.schedule.sketches.llvm_names import llvm_fault
from edgetune.schedule.sketches.tvm_target import tvm_target
from edgetune.target.target import Target, list_targets, load_target
from edgetune.target.tool_names import emulator_fault
from edgetune.verify.toolchain import PackageToolchain
from tests.backends.test_c_bare_metal import model
from tests.distribution_sample import edgetune

CONTROLLER, APPLICATION, PC, RISCV = "mps2-an500", "rpi4", "generic-x86_64", "generic-riscv64"


def file_of(base: str, place: Path, **changed: object) -> Path:
    """A user's target file, which differs from the shipped one called `base` in some keys."""
    facts = yaml.safe_load((targets_dir() / f"{base}.yaml").read_text(encoding="utf-8")) | {"name": "own"} | changed
    path = place / "own.yaml"
    path.write_text(yaml.safe_dump(facts, sort_keys=False), encoding="utf-8")
    return path


def changed_to(base: str, **changed: object) -> Target:
    return load_target(base).model_copy(update=changed)


@pytest.mark.parametrize(
    ("base", "key", "value", "tool", "nearest"),
    [
        (CONTROLLER, "cpu", "cortex-m44", "LLVM", "cortex-m4"),
        (PC, "cpu", "x86-64-vv9", "LLVM", "x86-64-v4"),
        (RISCV, "cpu", "sifive-u47", "LLVM", "sifive-u74"),
        (CONTROLLER, "triple", "thumbv7em-*nome-eabihf", "LLVM", "none"),
        (CONTROLLER, "triple", "thumbv7em-none-*eabif", "LLVM", "eabihf"),
        (CONTROLLER, "triple", "*thumbv7en-none-eabi", "LLVM", "thumbv7em"),
        (APPLICATION, "triple", "*aarch65-linux-gnu", "LLVM", "aarch64"),
        (APPLICATION, "triple", "aarch64-*linus-gnu", "LLVM", "linux"),
        (APPLICATION, "triple", "aarch64-*unknow-linux-gnu", "LLVM", "unknown"),
        (PC, "triple", "*x86-64-linux-gnu", "LLVM", "x86_64"),
        (APPLICATION, "llvm_features", ["+neonx"], "LLVM", "+neon"),
        (APPLICATION, "llvm_features", ["-dotprodd", "+neon"], "LLVM", "-dotprod"),
        (CONTROLLER, "emulator", ["mps2-an5000", "qemu-system-arm", "-machine"], "qemu-system-arm", "mps2-an500"),
        (CONTROLLER, "emulator", ["virtt", "qemu-system-arm", "-smp", "1", "-M"], "qemu-system-arm", "virt"),
        (APPLICATION, "emulator", ["cortex-a722", "qemu-aarch64", "-cpu"], "qemu-aarch64", "cortex-a72"),
        (PC, "emulator", ["haswell", "env", "A=1", "qemu-x86_64", "-cpu"], "qemu-x86_64", "Haswell"),
    ],
)
def test_a_name_that_nothing_knows_is_refused_with_the_nearest(
    tmp_path: Path, base: str, key: str, value: str | list[str], tool: str, nearest: str
) -> None:
    """`*` stands before the unknown part of a triple; that of an emulator comes last, with a property."""
    if isinstance(value, str):
        word = value.partition("*")[2].partition("-")[0] or value
        path = file_of(base, tmp_path, **{key: value.replace("*", "")})
    else:
        word = value[0]
        path = file_of(base, tmp_path, **{key: [*value[1:], f"{word},pmu=on"] if key == "emulator" else value})
    with pytest.raises(ConfigError) as caught:
        load_board(str(path), ask=True)
    line = next(i for i, text in enumerate(path.read_text().splitlines(), 1) if text.startswith(f"{key}:"))
    assert caught.value.message.startswith(f"{path}, line {line}: '{key}' says '{word}', which {tool} does not know")
    assert caught.value.message.endswith(f": did you mean '{nearest}'?")


def test_where_no_name_is_near_some_are_listed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'xyzzy', which LLVM does not know for x86_64: it knows .*, .* and others"):
        load_board(str(file_of(PC, tmp_path, cpu="xyzzy")), ask=True)


def test_a_feature_is_switched_on_or_off(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'dotprod', which must begin with \+ or -: did you mean '\+dotprod'"):
        load_board(str(file_of(APPLICATION, tmp_path, llvm_features=["dotprod"])), ask=True)


@pytest.mark.parametrize(
    ("base", "changed"),
    [
        (CONTROLLER, {"triple": "thumbv7em-unknown-none-eabihf"}),  # as Rust spells it
        (CONTROLLER, {"triple": "thumbv6m-none-eabi", "cpu": "cortex-m0plus"}),
        (CONTROLLER, {"triple": "thumbv8m.main-none-eabihf", "cpu": "cortex-m33"}),
        (CONTROLLER, {"triple": "arm-none-eabi", "cpu": "generic-armv7-a"}),  # GCC's machine, and a CPU of GCC alone
        (APPLICATION, {"triple": "aarch64-unknown-linux-gnu", "cpu": "apple-m1"}),  # an alias of LLVM alone
        (APPLICATION, {"triple": "aarch64-buildroot-linux-musl"}),  # a vendor that nothing knows
        (APPLICATION, {"triple": "aarch64-linux-android21"}),
        (APPLICATION, {"triple": "arm64--linux-gnu"}),
        (APPLICATION, {"llvm_features": ("+reserve-x18", "-sve2")}),  # the first is a feature that no CPU has
        (PC, {"triple": "x86_64-pc-linux-gnu", "cpu": "znver4"}),
        (PC, {"triple": "x86_64-unknown-freebsd13.2"}),
    ],
)
def test_a_name_that_llvm_or_the_compiler_knows_passes(base: str, changed: dict[str, object]) -> None:
    assert llvm_fault(changed_to(base, **changed)) is None


@pytest.mark.parametrize(
    "words",
    [
        ["qemu-system-arm", "-machine", "type=virt,secure=on", "-cpu", "cortex-a15,pmu=off", "-kernel"],
        ["qemu-riscv64", "-cpu", "rv64,v=true"],
        ["qemu-x86_64", "-cpu", "Haswell-v4"],
        ["FVP_Corstone_SSE-300", "-cpu", "nothing"],
        ["qemu-nothing", "-cpu", "nothing"],
        [],
    ],
)
def test_emulators_that_know_their_names_or_list_none_are_not_refused(words: list[str]) -> None:
    assert emulator_fault(words) == ""


def test_without_its_compiler_the_names_of_llvm_remain() -> None:
    compiler = load_target(CONTROLLER).compiler.model_copy(update={"cc": "no-such-gcc"})
    assert llvm_fault(changed_to(CONTROLLER, compiler=compiler)) is None
    assert llvm_fault(changed_to(CONTROLLER, compiler=compiler, triple="thumbv7em-none-eabihff")) is not None


def test_all_names_of_shipped_targets_are_known() -> None:
    shipped = [target for target in list_targets() if isinstance(target, Target)]
    assert len(shipped) > 10
    assert [llvm_fault(target) for target in shipped] == [None] * len(shipped)
    assert [emulator_fault(target.emulator) for target in shipped] == [""] * len(shipped)


@given(st.sampled_from([CONTROLLER, APPLICATION, PC, RISCV]), st.data())
def test_a_slip_in_the_name_of_any_cpu_is_refused_and_a_known_one_offered(base: str, data: st.DataObject) -> None:
    target = load_target(base)
    known = [str(name) for name in codegen.llvm_get_cpu_archlist(tvm_target(target))]
    name = data.draw(st.sampled_from([name for name in known if len(name) > 4]))
    place = data.draw(st.integers(0, len(name) - 1))
    slip = name[:place] + data.draw(st.sampled_from(["", 2 * name[place], "#"])) + name[place + 1 :]
    fault = llvm_fault(target.model_copy(update={"cpu": slip}))
    if fault is None:
        assert slip in known or "#" not in slip  # another CPU
        return
    assert fault.key == "cpu"
    offered = re.search(r"did you mean '(.*)'\?", fault.why)
    assert offered is not None
    assert offered[1] in known


@pytest.mark.long
def test_build_refuses_it_and_writes_nothing(tmp_path: Path) -> None:
    file_of(CONTROLLER, tmp_path, cpu="cortex-m77")
    model(tmp_path / "small.onnx")
    done = edgetune(["build", "small.onnx", "--board", "own.yaml"], cwd=tmp_path)
    assert done.returncode == ConfigError.exit_code
    assert "'cpu' says 'cortex-m77', which LLVM does not know for thumbv7em: did you mean 'cortex-m7'?" in done.stderr
    assert not (tmp_path / "build").exists()


def test_verify_says_what_the_installed_emulator_does_not_know() -> None:
    tools = PackageToolchain.of_board(load_target(CONTROLLER))
    other = replace(tools, emulator=("qemu-system-arm", "-machine", "mps2-an5000"))
    with pytest.raises(NothingRunsIt, match=r"the 'emulator' of board 'mps2-an500' says 'mps2-an5000', which qemu"):
        other.require()
    other.require(emulator=False)


def test_doctor_names_the_fault_of_a_users_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file_of(CONTROLLER, tmp_path, cpu="cortex-m44")
    with pytest.raises(ConfigError, match="did you mean 'cortex-m4'"):
        diagnose({}, tmp_path, str(path))
    monkeypatch.setattr("edgetune.target.target.targets_dir", lambda: path.parent)
    assert load_board("own", ask=True).target.name == "own"  # what is shipped is not asked about
