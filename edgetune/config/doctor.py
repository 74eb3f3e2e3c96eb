"""``edgetune doctor``: checks pins, packages, toolchains, clocks, disk and permissions; gives a fix for each fault."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from edgetune.config.boards_file import boards_path, list_addresses, load_board
from edgetune.config.project import PROJECT_FILE, ProjectFile
from edgetune.config.settings import DEFAULT_DB, resolve_db
from edgetune.config.stack import REPAIR, check_stack, installed_version
from edgetune.config.transport_rules import ANY_TRANSPORT, TransportRules
from edgetune.errors import ConfigError, DiskFull, OutputRefused, StackMismatch, ToolchainMissing
from edgetune.findings import Finding
from edgetune.target.board_check import StartWords, check_board, hosted
from edgetune.target.target import load_board_kind, target_names
from edgetune.yaml_reader.checked import check_document
from edgetune.yaml_reader.quantities import format_bytes
from edgetune.yaml_reader.source import load_yaml

_LOW_DISK = 2 * 1024**3
_NO_DISK = 200 * 1024**2
_PACKAGES = (
    *("numpy", "onnx", "psutil", "cloudpickle", "click", "rich", "pydantic", "jinja2"),
    *("SQLAlchemy", "PyYAML", "paramiko"),
)


def diagnose(
    environment: Mapping[str, str],
    folder: Path,
    board: str | None = None,
    rules: TransportRules = ANY_TRANSPORT,
    start: StartWords = hosted,
) -> list[Finding]:
    """Return the findings for this machine and the project in ``folder``: faults first, then warnings, then the rest.

    With ``board``, only the target of that board is checked, and its tools are required; without, those of this machine
    are. ``rules`` are those of the installed transports, ``start`` is that of the backends. Raises UnknownBoard, and
    ConfigError where the file of ``board`` is wrong. Without PATH, nothing is tried of what needs tools.
    """
    if not os.environ.get("PATH"):
        fix = "export PATH=/usr/local/bin:/usr/bin:/bin"
        fault = Finding("PATH", False, "PATH is not set", fix, True, ToolchainMissing.exit_code)
        return [fault, *_of_python()]
    if board is None:
        found = [finding for name in target_names() for finding in _of_target(name, rules, start)]
    else:
        found = check_board(load_board(board, rules).target, required=True, start=start)
    findings = [*_of_machine(), *_once(found), *_of_project(environment, folder, rules)]
    return sorted(findings, key=lambda finding: (finding.ok, not finding.required))


def _of_target(name: str, rules: TransportRules, start: StartWords) -> list[Finding]:
    """The findings for the target called `name`; a file that is wrong is one of them."""
    try:
        target = load_board_kind(name, rules.target_fault)
        return check_board(target, required=rules.here(target), start=start)
    except ConfigError as error:
        return [Finding(f"target {name}", False, error.message, "", True, error.exit_code)]


def _once(findings: Sequence[Finding]) -> list[Finding]:
    """Merge findings that several targets have in common, such as the same missing compiler, into one."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        kind, _, _ = finding.check.rpartition(" ")
        own = finding.check if finding.ok else ""
        groups.setdefault((kind + own, finding.detail, finding.fix), []).append(finding)
    merged = []
    for group in groups.values():
        kind, _, _ = group[0].check.rpartition(" ")
        names = ", ".join(finding.check.rpartition(" ")[2] for finding in group)
        required = next((finding for finding in group if finding.required), group[0])
        merged.append(replace(required, check=f"{kind} {names}"))
    return merged


def _of_python() -> Iterator[Finding]:
    yield _python()
    yield _stack()
    yield from _packages()


def _of_machine() -> Iterator[Finding]:
    yield from _of_python()
    yield from _tools()
    yield _governor()
    yield _load()


def _of_project(environment: Mapping[str, str], folder: Path, rules: TransportRules) -> Iterator[Finding]:
    yield from _project(folder, rules)
    yield from _boards(rules)
    try:
        db = resolve_db(None, environment, folder)
    except ConfigError:
        db = folder / DEFAULT_DB  # reported above
    local = {"records": db.parent} if isinstance(db, Path) else {}
    for role, path in {**local, "packages": folder / "build"}.items():
        yield _writable(role, path)
        yield _disk(role, path)


def _python() -> Finding:
    version = ".".join(str(part) for part in sys.version_info[:3])
    return Finding("python", sys.version_info >= (3, 11), version, "", required=True)


def _stack() -> Finding:
    try:
        check_stack()
    except StackMismatch as error:
        return Finding("tvm pins", False, error.message, REPAIR, True, error.exit_code)
    versions = f"apache-tvm {installed_version('apache-tvm')}, apache-tvm-ffi {installed_version('apache-tvm-ffi')}"
    return Finding("tvm pins", True, versions)


def _packages() -> Iterator[Finding]:
    missing = [name for name in _PACKAGES if installed_version(name) is None]
    fix = f"pip install {' '.join(missing)}" if missing else ""
    detail = f"missing: {', '.join(missing)}" if missing else "all installed"
    yield Finding("python packages", not missing, detail, fix, True)
    booster = next((name for name in ("xgboost-cpu", "xgboost") if installed_version(name)), None)
    detail = f"{booster} {installed_version(booster)}" if booster else "not installed"
    yield Finding("cost model", booster is not None, detail, "" if booster else "pip install xgboost-cpu", True)
    reference = installed_version("onnxruntime")
    detail = f"onnxruntime {reference}" if reference else "not installed: verify uses the slower ONNX evaluator"
    yield Finding("reference", reference is not None, detail, "" if reference else "pip install onnxruntime")


def _tools() -> Iterator[Finding]:
    for program, package, required in (
        ("make", "make", True),
        ("cmake", "cmake", False),
        ("clang-19", "clang-19", False),
        ("ssh", "openssh-client", False),  # for `boards shell`; measuring does not need it
        ("qemu-system-aarch64", "qemu-system-arm", False),
    ):
        path = shutil.which(program)
        fix = "" if path else f"sudo apt-get install {package}"
        detail = path or "not on PATH"
        yield Finding(program, path is not None, detail, fix, required, ToolchainMissing.exit_code)


def _governor() -> Finding:
    files = sorted(Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor"))
    names = {path.read_text(encoding="ascii").strip() for path in files}
    if not names:
        return Finding("cpu governor", True, "this machine does not report it (usual in virtual machines)")
    good = names == {"performance"}
    fix = "" if good else "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
    return Finding("cpu governor", good, ", ".join(sorted(names)), fix)


def _load() -> Finding:
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    calm = load < max(1.0, cores / 2)
    fix = "" if calm else "stop other programs while timing: `top` shows them"
    return Finding("load", calm, f"{load:.1f} on {cores} cores", fix)


def _project(folder: Path, rules: TransportRules) -> Iterator[Finding]:
    path = folder / PROJECT_FILE
    if not path.exists():
        return
    try:
        document = load_yaml(path)
        stated = check_document(ProjectFile, document)
        if stated.rpc is not None and (fault := rules.rpc_fault(stated.rpc)):
            raise document.error(("rpc",), f"'rpc' {fault}")
    except ConfigError as error:
        yield Finding("project", False, error.message, f"edit {path}", True, error.exit_code)
    else:
        yield Finding("project", True, str(path))


def _boards(rules: TransportRules) -> Iterator[Finding]:
    if not boards_path().exists():
        return
    try:
        names = [address.name for address in list_addresses(rules)]
    except ConfigError as error:
        yield Finding("boards file", False, error.message, f"edit {boards_path()}", True, error.exit_code)
    else:
        yield Finding("boards file", True, f"{boards_path()}: {len(names)} (`edgetune boards check` checks them)")


def _writable(role: str, path: Path) -> Finding:
    existing = _existing(path)
    good = existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
    fix = "" if good else f'sudo chown "$USER" {existing}'
    detail = f"{path}" if good else f"{existing} cannot be written to"
    return Finding(f"folder of {role}", good, detail, fix, True, OutputRefused.exit_code)


def _disk(role: str, path: Path) -> Finding:
    free = shutil.disk_usage(_existing(path)).free
    fix = "" if free >= _LOW_DISK else f"free some space: `du -xh {_existing(path)} | sort -h | tail` shows the largest"
    detail = f"{format_bytes(free)} free"
    return Finding(f"disk for {role}", free >= _LOW_DISK, detail, fix, free < _NO_DISK, DiskFull.exit_code)


def _existing(path: Path) -> Path:
    return next(parent for parent in (path, *path.parents) if parent.exists())
