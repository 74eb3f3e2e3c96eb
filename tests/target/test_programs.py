"""Tools that are missing: all of them are named at once, and one line installs them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from edgetune.cli.main import run
from edgetune.config.boards_file import BoardAddress, ResolvedBoard
from edgetune.errors import ToolchainMissing
from edgetune.pipeline.boards import accesses
from edgetune.target.programs import RequiredProgram, install_line, missing_words, require_programs
from edgetune.target.target import load_target
from tests import package_sample as sample

MODEL = Path(__file__).parents[2] / "examples/models/ad_ae.onnx"
ARM_COMPILER = "aarch64-linux-gnu-gcc (the C compiler of board '{}')"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tools") / "package"
    sample.emit(folder, target=sample.arm("generic-aarch64"), measure=False)
    return folder


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Have a machine without any tool."""
    monkeypatch.setenv("PATH", str(tmp_path))


def measuring_programs(name: str) -> tuple[RequiredProgram, ...]:
    target = load_target(name)
    address = BoardAddress(name="shelf-1", target=name, ssh="shelf-1")
    (board,) = accesses(ResolvedBoard(target, (address,) if target.addressable else ()))
    return board.programs


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(
    ("target", "packages"),
    [
        ("qemu-aarch64", "gcc-aarch64-linux-gnu libc6-dev-arm64-cross make gcc libc6-dev qemu-user"),
        ("qemu-rpi4", "gcc-aarch64-linux-gnu libc6-dev-arm64-cross make qemu-system-arm util-linux"),
        ("rpi4", "gcc-aarch64-linux-gnu libc6-dev-arm64-cross make"),
    ],
)
def test_a_search_names_all_that_it_needs(target: str, packages: str) -> None:
    with pytest.raises(ToolchainMissing) as raised:
        require_programs(measuring_programs(target))
    named, _, line = raised.value.message.rpartition(": ")
    assert named.startswith(ARM_COMPILER.format(target))
    assert named.endswith(" are not on PATH")
    assert line == f"sudo apt-get install {packages}"


@pytest.mark.usefixtures("bare")
def test_tune_names_all_at_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["tune", str(MODEL), "--board", "qemu-aarch64", "--out", str(tmp_path / "out"), "-q"]
    assert run(words) == ToolchainMissing.exit_code
    told = capsys.readouterr().err
    assert told.count("sudo apt-get install") == 1
    assert all(name in told for name in ("aarch64-linux-gnu-gcc", "make", "qemu-aarch64 (which runs", "qemu-user"))


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("verb", ["verify", "bench"])
def test_a_package_names_all_at_once(package: Path, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb, str(package), "-q"]) == ToolchainMissing.exit_code
    told = " ".join(capsys.readouterr().err.split())
    assert f"make (which builds packages), {ARM_COMPILER.format('generic-aarch64')} and qemu-aarch64" in told
    assert "sudo apt-get install make gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user" in told


@pytest.mark.usefixtures("bare")
def test_setup_names_all_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["boards", "setup", "qemu-rpi4", "--json"]) == ToolchainMissing.exit_code
    (found,) = json.loads(capsys.readouterr().out)
    assert found["check"] == "tools"
    packages = "gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-system-arm util-linux"  # and no user-mode emulator
    assert found["fix"] == f"sudo apt-get install {packages}"


def test_a_machine_that_has_them_is_asked_for_nothing() -> None:
    require_programs(measuring_programs("qemu-aarch64"))
    assert shutil.which("make")


def test_programs_without_a_known_package_are_named_too() -> None:
    known, own, other = (
        RequiredProgram("a", "p q", "first"),
        RequiredProgram("b", None, "second"),
        RequiredProgram("c", "q r", "third"),
    )
    assert missing_words([own]) == "b (second) is not on PATH"
    assert install_line([own]) == "install it and put it on PATH"
    assert missing_words([known, own, other]) == "a (first), b (second) and c (third) are not on PATH"
    assert install_line([known, own, other]) == "sudo apt-get install p q r, and put b on PATH"
