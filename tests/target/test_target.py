"""Targets: all shipped files, the detected host, a board of the user's own, and what a wrong file says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from edgetune.config.boards_file import require_measurable
from edgetune.errors import BoardUnavailable, ConfigError, EdgetuneError, ToolchainMissing, ToolHung, UnknownBoard
from edgetune.package.content import C_CONTENT
from edgetune.pipeline.backends import start_words
from edgetune.pipeline.boards import load_board
from edgetune.target import board_check
from edgetune.target.board_check import check_board
from edgetune.target.core import WIDEST, Core
from edgetune.target.costs import COSTS, Order
from edgetune.target.detect import cache_bytes, describe_host
from edgetune.target.dot_product import DotProduct
from edgetune.target.gpu import GpuTarget
from edgetune.target.identity import target_fingerprint
from edgetune.target.isa.aarch64 import AARCH64
from edgetune.target.isa.armv7 import ARMV7
from edgetune.target.isa.x86_64 import X86_64
from edgetune.target.programs import compiler_of, emulator_of, require_program, require_programs
from edgetune.target.target import Target, list_targets, load_board_kind, load_target

SHIPPED = [
    "host",
    "cortex-m0plus",
    "cuda-generic",
    "generic-aarch64",
    "generic-armv7",
    "generic-riscv64",
    "generic-x86_64",
    "h200",
    "jetson-orin",
    "mps2-an385",
    "mps2-an386",
    "mps2-an500",
    "mps2-an505",
    "mps3-an547",
    "nrf52840",
    "qemu-aarch64",
    "qemu-armv7",
    "qemu-rpi4",
    "rp2040",
    "rp2350",
    "rpi3",
    "rpi4",
    "rpi5",
    "stm32h7a3",
    "stm32l4r5",
    "stm32u575",
]
BUILT_ONLY = {"rp2040", "rp2350", "stm32h7a3", "stm32l4r5", "stm32u575"}
"""Microcontrollers whose memory map no emulator has."""
HASWELL = "flags\t\t: fpu sse sse2 pni ssse3 sse4_1 sse4_2 popcnt avx avx2 fma f16c bmi1 bmi2 abm\n"
ZEN4 = HASWELL.strip() + " avx512f avx512cd avx512bw avx512dq avx512vl avx512_vnni avx512_bf16\n"


def test_arm_machines_of_different_cores_do_not_share_records() -> None:
    text = "Features\t: fp asimd crc32\nCPU implementer\t: 0x41\nCPU part\t: {}\n"
    hosts = [
        describe_host(AARCH64, text.format(a) + text.format(b), cores=2, l1=32768, l2=524288, cc="gcc")
        for a, b in (("0xd03", "0xd03"), ("0xd08", "0xd08"), ("0xd03", "0xd08"), ("0xd08", "0xd03"))
    ]
    assert [host.cpu_part for host in hosts[:3]] == ["0x41:0xd03", "0x41:0xd08", "0x41:0xd03+0x41:0xd08"]
    prints = [target_fingerprint(host) for host in hosts]
    assert len(set(prints)) == 3
    assert prints[2] == prints[3]
    small = [
        describe_host(ARMV7, f"Features : neon vfpv4\n{text.format(part)}", cores=4, l1=32768, l2=524288, cc="gcc")
        for part in ("0xc07", "0xc0f")
    ]
    assert target_fingerprint(small[0]) != target_fingerprint(small[1])


def _with_cpus() -> list[Target]:
    return [target for target in list_targets() if isinstance(target, Target)]


def test_all_shipped_targets_load() -> None:
    assert [target.name for target in list_targets()] == SHIPPED
    for target in _with_cpus():
        assert target.compiler.package
        assert "-O3" in target.compiler.cflags
        assert "-ffp-contract=fast" in target.compiler.cflags
        assert not any("native" in flag for flag in target.compiler.cflags)
        assert (target.reach == "local" or target.name in BUILT_ONLY) == (target.emulator == ())
        assert target.emulated == target.name.startswith(("qemu-", "mps", "cortex-m", "nrf"))
        assert (target.clock == "instructions") == (target.reach in {"emulator", "image"})


def test_what_is_recorded_of_a_shipped_target_is_found_again() -> None:
    fingerprints = {target.name: target_fingerprint(target) for target in _with_cpus() if target.name != "host"}
    assert fingerprints == {
        "cortex-m0plus": "9d83bd754ff75fd4",
        "generic-aarch64": "b127514e77765dc6",
        "generic-armv7": "248185f0fceb6e1a",
        "generic-riscv64": "b3e3e6d921e47d9f",
        "generic-x86_64": "b899a3a66927c53b",
        "mps2-an385": "8f5c0ef0f26a6686",
        "mps2-an386": "6d17d8a471e953b4",
        "mps2-an500": "23ba208697408e81",
        "mps2-an505": "844015c9cd36da73",
        "mps3-an547": "a2a7fa10a254dc60",
        "nrf52840": "6d17d8a471e953b4",  # that of mps2-an386, whose records serve it as well
        "qemu-aarch64": "87bb58d3584d7cef",
        "qemu-armv7": "5be998b22a2a131f",
        "qemu-rpi4": "c0c110f884322d92",
        "rp2040": "2e8ec3b61c44f56c",
        "rp2350": "24ebc5e3aeffeb3e",
        "rpi3": "2dcb829520f9c5f5",
        "rpi4": "aa97de7dc15455cf",
        "rpi5": "b8a893705124d8b4",
        "stm32h7a3": "22926f4d11cf814b",
        "stm32l4r5": "16a81b7600aaba35",
        "stm32u575": "24ebc5e3aeffeb3e",
    }


@pytest.mark.parametrize("name", SHIPPED)
def test_the_toolchain_of_each_target_compiles_and_runs(name: str) -> None:
    findings = check_board(load_board_kind(name), start=start_words)
    assert [finding for finding in findings if not finding.ok] == []
    compiled_alone = name in BUILT_ONLY or isinstance(load_board_kind(name), GpuTarget)
    assert len(findings) == (2 if compiled_alone else 3)


def test_programs_of_a_board_that_nothing_here_stands_for_are_compiled_alone() -> None:
    target = load_target("mps2-an500").model_copy(update={"emulator": ()})
    findings = check_board(target, start=start_words)
    assert [(finding.check, finding.ok) for finding in findings] == [
        ("compiler of mps2-an500", True),
        ("compiles for mps2-an500", True),
    ]


def test_the_host_flags_are_those_that_init_checks() -> None:
    target = load_target("host")
    require_measurable(target)
    assert require_program(compiler_of(target)).name == target.compiler.cc
    assert emulator_of(target) == ()
    if target.isa == "x86_64":
        assert [f"-m{feature}" for feature in target.cpu_checks] == [
            flag for flag in target.compiler.cflags if flag.startswith("-m") and "=" not in flag
        ]


def test_every_x86_check_is_known_to_both_compilers(tmp_path: Path) -> None:
    zen4 = describe_host(X86_64, ZEN4, cores=1, l1=1, l2=1, cc="gcc", native=lambda _: "znver3")
    checks = " && ".join(f'__builtin_cpu_supports("{feature}")' for feature in zen4.cpu_checks)
    source = tmp_path / "check.c"
    source.write_text(f"int main(void) {{ return !({checks}); }}\n", encoding="ascii")
    flags = ["-Werror", *zen4.compiler.cflags, str(source), "-o", str(tmp_path / "check")]
    for compiler in (["gcc"], ["clang-19", "--target=x86_64-linux-gnu"]):
        extra = ["-c"] if "clang" in compiler[0] else []
        subprocess.run([*compiler, *extra, *flags], check=True)


def test_x86_levels() -> None:
    zen4 = describe_host(X86_64, ZEN4, cores=2, l1=32768, l2=1048576, cc="gcc", native=lambda _: "znver3")
    assert (zen4.cpu, zen4.vector_bits, zen4.vector_registers) == ("x86-64-v4", 512, 32)
    assert zen4.llvm_features == ("+avx512vnni", "+avx512bf16")
    assert "-mprefer-vector-width=512" in zen4.compiler.cflags
    assert "-mtune=znver3" in zen4.compiler.cflags
    haswell = describe_host(X86_64, HASWELL, cores=2, l1=32768, l2=262144, cc="gcc", native=lambda _: None)
    assert (haswell.cpu, haswell.vector_bits, haswell.vector_registers) == ("x86-64-v3", 256, 16)
    old = describe_host(X86_64, "flags : fpu sse sse2\n", cores=1, l1=1, l2=1, cc="gcc", native=lambda _: None)
    assert (old.cpu, old.vector_bits, old.cpu_checks) == ("x86-64", 128, ())
    # AVX-512F without its companions (Knights Landing) counts as AVX2: half an extension is a trap.
    odd = describe_host(
        X86_64, HASWELL.strip() + " avx512f avx512cd\n", cores=1, l1=1, l2=1, cc="gcc", native=lambda _: None
    )
    assert (odd.cpu, odd.vector_bits) == ("x86-64-v3", 256)


def test_arm_hosts() -> None:
    text = "Features\t: fp asimd evtstrm crc32 atomics fphp asimdhp cpuid asimdrdm asimddp\n"
    modern = describe_host(AARCH64, text, cores=4, l1=65536, l2=524288, cc="gcc")
    assert "-march=armv8.2-a+fp16+dotprod" in modern.compiler.cflags
    plain = describe_host(AARCH64, "Features : fp asimd crc32\n", cores=4, l1=32768, l2=524288, cc="gcc")
    assert "-march=armv8-a" in plain.compiler.cflags
    small = describe_host(ARMV7, "Features : half neon vfpv4\n", cores=4, l1=32768, l2=524288, cc="gcc")
    assert small.compiler.kernel_cflags == load_target("generic-armv7").compiler.kernel_cflags
    assert plain.compiler.kernel_cflags == load_target("generic-aarch64").compiler.kernel_cflags
    by_clang = describe_host(AARCH64, "Features : fp asimd crc32\n", cores=4, l1=32768, l2=524288, cc="clang-19")
    assert by_clang.compiler.kernel_cflags == ()
    with pytest.raises(EdgetuneError, match="lacks NEON"):
        describe_host(ARMV7, "Features : half vfp\n", cores=1, l1=1, l2=1, cc="gcc")


def test_caches_are_read_and_have_a_fallback(tmp_path: Path) -> None:
    assert cache_bytes(tmp_path) == (32 * 1024, 512 * 1024)
    for index, (level, kind, size) in enumerate(
        [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2M")]
    ):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        for name, text in {"level": level, "type": kind, "size": size}.items():
            (folder / name).write_text(text + "\n", encoding="ascii")
    assert cache_bytes(tmp_path) == (48 * 1024, 2 * 1024**2)


def test_unknown_boards_name_the_nearest() -> None:
    with pytest.raises(UnknownBoard, match="unknown target 'rpi44': did you mean 'rpi4'"):
        load_target("rpi44")
    with pytest.raises(UnknownBoard, match="there is no target file"):
        load_target("no/such.yaml")


@pytest.mark.parametrize("name", ["rpi4", "mps2-an500", "cuda-generic"])
def test_every_size_of_a_target_may_have_a_unit(name: str, tmp_path: Path) -> None:
    """Whatever is called bytes; a size that is none is refused with its line."""
    described = yaml.safe_load((Path(__file__).parents[2] / "targets" / f"{name}.yaml").read_text(encoding="utf-8"))
    sizes = [
        (group, key) for group in _groups(described) for key in group if key.split("_")[0] in {"bytes", "l1", "l2"}
    ]
    assert len(sizes) >= (1 if name == "cuda-generic" else 2)
    for group, key in sizes:
        group[key] = "4 kB"
    (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(described), encoding="utf-8")
    loaded = load_board_kind(str(tmp_path / f"{name}.yaml"))
    assert {value for group in _groups(loaded.model_dump()) for key, value in group.items() if "bytes" in key} >= {4000}
    for group, key in sizes:
        group[key] = "4 kilo"
    (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(described), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"line \d+: '[\w.]+' must be a size such as 64KiB or 1MB, not '4 kilo'"):
        load_board_kind(str(tmp_path / f"{name}.yaml"))


def _groups(value: object) -> list[dict[str, Any]]:
    """All mappings in a file, whatever they are in."""
    if not isinstance(value, dict):
        return []
    return [value, *(group for inner in value.values() for group in _groups(inner))]


def test_a_board_of_the_user_needs_only_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = Path(__file__).parents[2] / "targets" / "rpi4.yaml"
    text = shipped.read_text(encoding="utf-8").replace("name: rpi4", "name: shelf")
    folder = tmp_path / "edgetune" / "targets"
    folder.mkdir(parents=True)
    (folder / "shelf.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert load_target("shelf").cpu == "cortex-a72"
    assert load_target(str(folder / "shelf.yaml")).name == "shelf"
    (folder / "other.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"other.yaml, line 2: 'name' must be 'other', like the file"):
        load_target("other")
    (folder / "shelf.yaml").write_text(text.replace("vector_bits: 128", "vector_bits: 100"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"shelf.yaml, line \d+: 'vector_bits' must be 0, 32, 64, 128, 256 or 512"):
        load_target("shelf")
    (folder / "shelf.yaml").write_text(text + "\ncaches: cold\n", encoding="utf-8")
    cold = load_target("shelf")
    assert "cold caches" in cold.caveat
    assert cold.cold_bytes >= 8 * cold.l2_bytes
    assert target_fingerprint(cold) != target_fingerprint(load_target("rpi4"))
    (folder / "shelf.yaml").write_text(text.replace("  cflags:", "  cflgas:"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"unknown key 'compiler\.cflgas': did you mean 'cflags'"):
        load_target("shelf")


def test_a_target_states_costs_over_those_of_its_instruction_set(tmp_path: Path) -> None:
    assert load_target("generic-x86_64").costs == X86_64.costs
    assert load_target("host").costs.function == COSTS.function
    text = (Path(__file__).parents[2] / "targets" / "generic-x86_64.yaml").read_text(encoding="utf-8")
    text = text.replace("name: generic-x86_64", "name: shelf")
    file = tmp_path / "shelf.yaml"
    file.write_text(f"{text}\ncosts:\n  function: 7\n", encoding="utf-8")
    stated = load_target(str(file))
    assert stated.costs == X86_64.costs.model_copy(update={"function": 7})
    assert stated.costs.operations_in_flight != COSTS.operations_in_flight
    assert target_fingerprint(stated) == target_fingerprint(load_target("generic-x86_64")), "records are lost"
    manifest = C_CONTENT.manifest(stated, threads=1)
    assert manifest == {**C_CONTENT.manifest(load_target("generic-x86_64"), threads=1), "name": "shelf"}
    for line, sentence in {
        "  functoin: 7": r"line \d+: unknown key 'costs\.functoin': did you mean 'function'",
        "  function: 0": r"line \d+: 'costs\.function' must be",
        "  function: slow": r"line \d+: 'costs\.function' must be",
        "  operations_in_flight: 2.5": r"line \d+: 'costs\.operations_in_flight' must be",
        "  - function": r"line \d+: 'costs' must be",
    }.items():
        file.write_text(f"{text}\ncosts:\n{line}\n", encoding="utf-8")
        with pytest.raises(ConfigError, match=sentence):
            load_target(str(file))


def test_a_target_states_its_dot_product(tmp_path: Path) -> None:
    generic = load_target("generic-x86_64")
    assert generic.dot_products == (DotProduct(elements=2),)
    text = (Path(__file__).parents[2] / "targets" / "generic-x86_64.yaml").read_text(encoding="utf-8")
    text = text.replace("name: generic-x86_64", "name: shelf")
    file = tmp_path / "shelf.yaml"
    file.write_text(f"{text}\ndot: {{elements: 4, signs: us}}\n", encoding="utf-8")
    stated = load_target(str(file))
    assert [one.data for one in stated.dot_products] == ["uint8", "int16"]
    assert target_fingerprint(stated) == target_fingerprint(generic), "records are lost"
    assert not stated.model_copy(update={"vector_bits": 0}).dot_products
    for line, sentence in {
        "{elements: 3}": r"line \d+: 'dot\.elements' must be 2, 4 or 16",
        "{elements: 2, signs: us}": r"products of two elements have signs",
        "{elements: 2, bits: 8}": "x86_64 has no instruction for 2 products of int8 in a lane",
        "{elements: 4, bits: 16}": "x86_64 has no instruction for 4 products of int16 in a lane",
        "{elements: 4, sings: us}": r"unknown key 'dot\.sings': did you mean 'signs'",
    }.items():
        file.write_text(f"{text}\ndot: {line}\n", encoding="utf-8")
        with pytest.raises(ConfigError, match=sentence):
            load_target(str(file))


def test_a_detected_target_may_state_costs(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    head = "name: mine\ndescription: this machine\ndetect: true\ncosts:\n"
    file.write_text(f"{head}  division_512: 3\n", encoding="utf-8")
    assert load_target(str(file)).costs == load_target("host").costs.model_copy(update={"division_512": 3})
    file.write_text(f"{head}  division: -1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"mine.yaml, line 5: 'costs\.division' must be"):
        load_target(str(file))


def test_costs_of_elements_take_their_size_and_lanes() -> None:
    assert COSTS.move("turned", element_bytes=8) == 2 * COSTS.move("turned")
    assert COSTS.move("turned", element_bytes=1) == COSTS.move_turned / 4
    assert COSTS.move("along_rows", lanes=1) == COSTS.move("one_by_one", element_bytes=8) == COSTS.move_one_by_one
    assert [COSTS.divided(lanes) for lanes in (1, 4, 8, 16)] == [
        COSTS.division,
        COSTS.division,
        COSTS.division_256,
        COSTS.division_512,
    ]
    assert COSTS.divided(4, element_bytes=8) == COSTS.division_256
    assert Core(4, 32, 1 << 15).least_terms * 4 == WIDEST.least_terms
    assert all(getattr(COSTS, f"move_{order}") > 0 for order in get_args(Order))


@pytest.mark.parametrize(
    ("reach", "more", "sentence"),
    [
        ("emulator", "", "line 13: 'reach' is 'emulator', which counts instructions: add 'clock: instructions'"),
        ("local", "clock: instructions", "'clock' is 'instructions', but 'reach: local' measures time: leave it out"),
        ("ssh", "clock: instructions", "'clock' is 'instructions', but 'reach: ssh' measures time: leave it out"),
        ("emulator", "clock: instructions\nemulator: []", "needs 'emulator', the command that runs its programs"),
        (
            "emulator",
            "clock: instructions",
            "line 13: 'reach' is 'emulator', where no real core is timed: add 'emulated: true', which older files lack",
        ),
        (
            "machine",
            "",
            "line 13: 'reach' is 'machine', where no real core is timed: add 'emulated: true', which older",
        ),
        ("local", "caches: cold", "needs 'reach: ssh' or 'reach: machine' with 'caches: cold'"),
        ("emulator", "clock: instructions\ncaches: cold", "needs 'reach: ssh' or 'reach: machine' with 'caches: cold'"),
        ("shh", "", "line 13: 'reach' must be the name of a transport, ssh or none, not 'shh': did you mean 'ssh'?"),
        (
            "agent",
            "",
            "line 13: 'reach' is 'agent', which needs an address: write ssh, and 'rpc: agent' in boards.yaml",
        ),
    ],
)
def test_what_the_transport_of_a_target_demands_of_its_file(
    tmp_path: Path, reach: str, more: str, sentence: str
) -> None:
    text = (Path(__file__).parents[2] / "targets" / "rpi4.yaml").read_text(encoding="utf-8")
    if "emulator:" in more:
        text = re.sub(r"^emulator: .*\n", "", text, flags=re.MULTILINE)
    text = text.replace("name: rpi4", "name: shelf").replace("reach: ssh", f"reach: {reach}")
    (tmp_path / "shelf.yaml").write_text(f"{text}{more}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        load_board(str(tmp_path / "shelf.yaml"))


@pytest.mark.parametrize(("hangs", "before"), [("aarch64-linux-gnu-gcc", 1), ("qemu-aarch64", 2)])
def test_a_tool_that_hangs_is_a_finding_after_those_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hangs: str, before: int
) -> None:
    real = shutil.which(hangs)
    monkeypatch.setattr(board_check, "_TIMEOUT_S", 0.5)
    (tmp_path / hangs).write_text(f'#!/bin/sh\ncase "$*" in *check*) sleep 60;; esac\nexec {real} "$@"\n')
    (tmp_path / hangs).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    *found, last = check_board(load_board_kind("qemu-aarch64"))
    assert [finding.ok for finding in found] == [True] * before
    assert (last.ok, last.exit_code) == (False, ToolHung.exit_code)
    assert last.detail.startswith(f"{hangs} hung on check")


def test_boards_out_of_reach_and_missing_compilers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    target = load_target("rpi4")
    with pytest.raises(BoardUnavailable, match="edgetune boards add NAME --target rpi4 --ssh USER@HOST"):
        require_measurable(target)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainMissing, match="apt-get install gcc-aarch64-linux-gnu"):
        require_program(compiler_of(target))
    with pytest.raises(ToolchainMissing, match="apt-get install qemu-user"):
        require_programs(emulator_of(target))
    (finding,) = check_board(target)
    assert not finding.ok
    assert finding.fix.startswith("sudo apt-get install gcc-aarch64-linux-gnu")
