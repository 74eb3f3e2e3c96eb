"""The command line: exit codes, one sentence per fault, JSON, quick help."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete

from edgetune import errors
from edgetune.cli.failure import as_edgetune_error, exit_code_of, report
from edgetune.cli.main import VERBS, cli, run
from edgetune.graph.precision import STORED

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "examples" / "models" / "ds_cnn.onnx"
HELP_TRIES = 20
"""What is slow by itself is so every time; what a busy machine makes slow is quick now and then."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], argv: list[str]) -> tuple[int, str]:
    """Run a command that must fail; return its code and its sentence, after checking that there is only one."""
    code = run(argv)
    said = capsys.readouterr()
    lines = said.err.strip().splitlines()
    assert len(lines) == 1, said.err
    assert lines[0].startswith("edgetune: error: ")
    assert said.out == ""
    return code, lines[0]


def test_every_error_class_has_a_code_of_its_own() -> None:
    classes = [
        item for item in vars(errors).values() if isinstance(item, type) and issubclass(item, errors.EdgetuneError)
    ]
    codes = [item.exit_code for item in classes]
    assert len(set(codes)) == len(codes) == 34
    assert all(item.__doc__ for item in classes)


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["tune", str(MODEL), "--board", "rpi4"], 8, "edgetune boards add NAME --target rpi4 --ssh USER@HOST"),
        (["tune", str(MODEL), "--board", "qemu-aarch64", "--min-trust", "B"], 2, "is emulated"),
        (["tune", str(MODEL), "--board", "host", "--min-trust", "E"], 2, "--min-trust"),
        (["tune", str(MODEL), "--board", "rpi44"], 7, "did you mean 'rpi4'"),
        (["tune", "gone.onnx", "--board", "host"], 4, "does not exist"),
        (["tune", str(MODEL)], 2, "no board is given"),
        (["tune", "--board", "host"], 2, "edgetune init"),
        (["tune", str(MODEL), "--board", "host", "--trials", "3", "--time", "3m"], 2, "exclude each other"),
        (["tune", str(MODEL), "--trails", "3"], 2, "--trials"),
        (["tune", str(MODEL), "--time", "soon"], 2, "must be a time such as 30m"),
        (["tune", str(MODEL), "--shape", "x=1,a"], 2, "must look like input=1,3,224,224"),
        (["tune", str(MODEL), "--board", "host", "--shape", "x=1", "--shape", "x=2"], 2, "same input twice"),
        (["tune", str(MODEL), "--dim", "tokens=x"], 2, "must look like tokens=128"),
        (["tune", str(MODEL), "--dim", "tokens=99999999999"], 2, "must look like tokens=128"),
        (["tune", str(MODEL), "--board", "host", "--dim", "t=1", "--dim", "t=2"], 2, "same axis twice"),
        (["build", str(MODEL), "--board", "host", "--dim", "t=1"], 4, "has no named axes: give --shape"),
        (["build", str(MODEL), "--layout", "nhwc"], 2, "must be model or channels_last, or NAME= and one of them"),
        (["build", str(MODEL), "--layout", "x=model", "--layout", "x=model"], 2, "same tensor twice"),
        (["build", str(MODEL), "--board", "host", "--layout", "in=model"], 4, "did you mean 'in0'"),
        (["tune", "-v", "-q"], 2, "exclude each other"),
        (["frobnicate"], 2, "frobnicate"),
        (["build", str(MODEL), "--board", "nope"], 7, "unknown board 'nope'"),
        (["init", "gone.onnx"], 4, "does not exist"),
        (["records", "show", "1"], 13, "records.db"),
        (["boards", "check", "nope"], 7, "unknown board"),
    ],
)
def test_faults(argv: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    found, sentence = refused(capsys, argv)
    assert found == code
    assert words in sentence


def test_faults_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", str(MODEL), "--board", "rpi44", "--json"]) == 7
    body = json.loads(capsys.readouterr().err)["error"]
    assert (body["class"], body["exit_code"]) == ("UnknownBoard", 7)
    assert "did you mean 'rpi4'" in body["message"]


def test_faults_of_the_project_name_file_and_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "edgetune.yaml").write_text("model: x.onnx\nbord: host\n", encoding="utf-8")
    code, sentence = refused(capsys, ["tune", "--board", "host"])
    assert code == 3
    assert "edgetune.yaml, line 2: unknown key 'bord': did you mean 'boards'?" in sentence


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", str(folder))
    code, sentence = refused(capsys, ["tune", str(MODEL), "--board", "host"])
    assert code == 9
    assert "gcc (the C compiler of board 'host') is not on PATH: sudo apt-get install gcc" in sentence


def test_system_faults_become_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(OSError(errno.ENOSPC, "No space", "/x")) == errors.DiskFull.exit_code
    assert exit_code_of(PermissionError(errno.EACCES, "Permission denied", "/x")) == errors.OutputRefused.exit_code
    assert exit_code_of(OSError(errno.EROFS, "Read-only", "/x")) == errors.OutputRefused.exit_code
    assert exit_code_of(click.Abort()) == exit_code_of(KeyboardInterrupt()) == 130
    assert exit_code_of(ValueError("a fault of ours")) is None
    assert as_edgetune_error(ZeroDivisionError()) is None
    assert report(errors.ModelError("odd \x1b[31m name\nsecond line"), as_json=False) == 4
    assert capsys.readouterr().err == "edgetune: error: odd ?[31m name second line\n"


def test_init_and_its_refusal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", str(MODEL), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"project": str(folder / "edgetune.yaml")}
    code, sentence = refused(capsys, ["init", str(MODEL)])
    assert code == 12
    assert "exists already" in sentence


def test_boards(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["boards", "list"]) == 0
    assert "cortex-a76" in capsys.readouterr().out
    assert run(["boards", "list", "--json"]) == 0
    boards = json.loads(capsys.readouterr().out)
    assert [board["name"] for board in boards][:3] == ["host", "cortex-m0plus", "cuda-generic"]
    assert run(["boards", "check", "generic-armv7", "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)
    assert [finding["ok"] for finding in findings] == [True, True, True, False]
    assert "edgetune boards add NAME --target generic-armv7" in findings[3]["fix"]


@pytest.mark.long
def test_doctor(monkeypatch: pytest.MonkeyPatch, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)
    assert all(finding["ok"] or finding["fix"] for finding in findings)
    assert {"tvm pins", "compiles for host", "cpu governor", "disk for records"} <= {item["check"] for item in findings}
    (folder / "edgetune.yaml").write_text("model: [\n", encoding="utf-8")
    monkeypatch.setenv("PATH", str(folder))
    assert run(["doctor"]) == errors.ToolchainMissing.exit_code
    out = capsys.readouterr().out
    assert "FAIL  make: not on PATH\n      fix: sudo apt-get install make" in out
    assert out.count("aarch64-linux-gnu-gcc is not on PATH") == 1
    assert "warn  compiler of generic-aarch64, qemu-aarch64, qemu-rpi4, rpi3, rpi4, rpi5: aarch64-linux-gnu-gcc" in out
    states = [line[:4] for line in out.splitlines() if not line.startswith(" ")]
    assert states == sorted(states, key=["FAIL", "warn", "ok  "].index)
    assert "FAIL  project" in out


def test_doctor_for_one_board(
    monkeypatch: pytest.MonkeyPatch, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", "--board", "rpi4", "--json"]) == 0
    found = [finding["check"] for finding in json.loads(capsys.readouterr().out)]
    assert [check for check in found if " rpi4" in check] == [
        "compiler of rpi4",
        "compiles for rpi4",
        "runs for rpi4",
    ]
    assert not any("riscv64" in check or "host" in check for check in found)
    programs = {"make", "gcc", "qemu-aarch64"}
    for name in programs:
        (folder / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(folder))
    assert run(["doctor", "--board", "rpi4", "-q"]) == errors.ToolchainMissing.exit_code
    assert capsys.readouterr().out.splitlines()[:2] == [
        "FAIL  compiler of rpi4: aarch64-linux-gnu-gcc is not on PATH",
        "      fix: sudo apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
    ]
    assert run(["doctor", "--board", "rpi44"]) == errors.UnknownBoard.exit_code


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert "_EDGETUNE_COMPLETE" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["tune", "build", "init"])
def test_the_name_of_a_package_is_completed(verb: str) -> None:
    found = BashComplete(cli, {}, "edgetune", "_EDGETUNE_COMPLETE").get_completions([verb, "model.onnx"], "--na")
    assert [item.value for item in found] == ["--name"]


@pytest.mark.parametrize("verb", ["tune", "build", "init"])
def test_a_name_that_cannot_be_a_prefix_is_refused(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb, "model.onnx", "--name", "../my net"]) == errors.UsageError.exit_code
    assert "'../my net': 'my_net' would do" in capsys.readouterr().err


def test_every_verb_has_help_json_verbose_and_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    context = click.Context(cli)
    leaves: list[click.Command] = []
    for verb in VERBS:
        command = cli.get_command(context, verb)
        assert command is not None
        assert command.help
        if isinstance(command, click.Group):
            names = command.list_commands(context)
            leaves += [leaf for name in names if (leaf := command.get_command(context, name))]
            assert run([verb, names[0], "--help"]) == 0
        else:
            leaves.append(command)
        assert run([verb, "--help"]) == 0
    assert capsys.readouterr().err == ""
    for leaf in leaves:
        options = {option for parameter in leaf.params for option in parameter.opts}
        assert {"--json", "-v", "-q"} <= options, leaf.name


def edgetune(*argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "edgetune", *argv]
    merged = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=merged)


def test_help_imports_nothing_heavy_and_is_quick() -> None:
    listing = edgetune("--help", PYTHONPROFILEIMPORTTIME="1")
    assert listing.returncode == 0
    imported = {line.rpartition("|")[2].strip() for line in listing.stderr.splitlines()}
    assert not imported & {"tvm", "numpy", "onnx", "pydantic", "rich", "sqlalchemy", "yaml", "edgetune.api"}
    # 0.15 s on an idle machine; the list of imports above is the sharper test.
    assert any(seconds_of_help() < 1.0 for _ in range(HELP_TRIES))


def seconds_of_help() -> float:
    start = time.perf_counter()
    edgetune("--help")
    return time.perf_counter() - start


@pytest.mark.long
def test_a_reader_that_goes_away_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "edgetune", "boards", "list", "--json"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode == 141  # what shells show for a program that SIGPIPE ended


def test_version_and_no_verb() -> None:
    assert edgetune("--version").stdout.startswith("edgetune 0.")
    bare = edgetune()
    assert bare.returncode == 2
    assert "Verbs:" in bare.stderr


@pytest.mark.long
def test_a_full_disk_behind_stdout() -> None:
    for flags in ([], ["--json"]):
        with Path("/dev/full").open("w", encoding="utf-8") as full:
            command = [sys.executable, "-m", "edgetune", "boards", "list", *flags]
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
        assert done.returncode == errors.DiskFull.exit_code
        assert "no space is left on the device" in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("before", [(), ("sshd",), ("postgresql",), ("sshd", "postgresql"), ("policy-rc.d",)])
def test_make_system_starts_no_server(folder: Path, before: tuple[str, ...]) -> None:
    """The stand-in for apt-get asks what may be started as Debian's maintainer scripts do."""
    programs = folder / "usr" / "sbin"
    programs.mkdir(parents=True)
    for name in before:
        if name == "postgresql":
            (folder / "usr" / "lib" / name).mkdir(parents=True)
        else:
            (programs / name).write_text("#!/bin/sh\nexit 0\n", encoding="ascii")
    policy = '"$DPKG_ROOT/usr/sbin/policy-rc.d"'
    ask = f'test -e {policy} && for one in ssh.service postgresql cron; do sh {policy} $one start; echo "$one $?"; done'
    installed = 'touch "$DPKG_ROOT/usr/sbin/sshd"; mkdir -p "$DPKG_ROOT/usr/lib/postgresql"'
    (folder / "apt-get").write_text(f"#!/bin/sh\n{installed}\n{ask}\ntrue\n", encoding="ascii")
    (folder / "update-rc.d").write_text('#!/bin/sh\necho "$@"\n', encoding="ascii")
    for name in ("apt-get", "update-rc.d"):
        (folder / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "DPKG_ROOT": str(folder)}
    command = ["sh", str(ROOT / ".ci/no-new-servers.sh"), "apt-get", "install"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    told = {
        (): ["ssh.service 101", "postgresql 101", "cron 0", "ssh disable", "postgresql disable"],
        ("sshd",): ["ssh.service 0", "postgresql 101", "cron 0", "postgresql disable"],
        ("postgresql",): ["ssh.service 101", "postgresql 0", "cron 0", "ssh disable"],
        ("sshd", "postgresql"): [],
        ("policy-rc.d",): ["ssh.service 0", "postgresql 0", "cron 0", "ssh disable", "postgresql disable"],
    }
    assert done.stdout.splitlines() == told[before]
    left = {path.name for path in programs.iterdir()}
    assert left == {"sshd", *before} - {"postgresql"}


@pytest.mark.parametrize("words", [["build"], ["tune"], ["bundle", "export"]])
def test_help_offers_the_precisions_that_some_board_has(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*words, "--help"]) == 0
    offered = re.search(r"\[fp32\|([a-z0-9|]+)\]", capsys.readouterr().out)
    assert offered is not None
    assert set(offered[1].split("|")) == set(STORED)


def test_no_document_says_that_nothing_is_timed_on_a_gpu() -> None:
    files = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "targets").glob("*.yaml")]
    for path in files:
        for line in path.read_text().splitlines():
            assert not re.search(r"GPU yet|nothing times", line), (path.name, line)
    rows = [line for line in files[0].read_text().splitlines() if line.startswith(("| `cuda-generic`", "| `h200`"))]
    assert len(rows) == 2
    assert all("in rounds" in row for row in rows)
