"""What `edgetune boards check` reports about a host with a GPU: the GPU, its health, and what rounds need there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from edgetune.boards.gpu_health import ASK_ERRORS, ASK_OTHERS, ASK_SAMPLE, GpuSample, health_faults
from edgetune.boards.reach import Reach
from edgetune.errors import BoardLost, BoardUnavailable, BoardUnfit, ToolchainMissing
from edgetune.findings import Finding
from edgetune.target.board_kind import BoardKind
from edgetune.target.gpu import GpuTarget

_PATIENCE_S = 30.0
_MOST = 200  # letters of an answer

DEVICES = "/dev/nvidia0 /dev/nvhost-gpu /dev/nvgpu"
"""Device files, of which a machine with an NVIDIA GPU has one."""

# Prints "key value" lines. EDGETUNE_CUDA_DRIVER names a driver, and so a GPU, as it does for the runner of a bundle.
_PROBE = f"""\
for file in $devices "$EDGETUNE_CUDA_DRIVER"; do
  [ -n "$file" ] && [ -e "$file" ] && echo "device $file"
done
file=$(command -v cc || command -v gcc) && echo "compiler $file"
grep -q "@${{EDGETUNE_LOCK:-edgetune}}\\$" /proc/net/unix 2>/dev/null && echo "lock"
if command -v nvidia-smi >/dev/null 2>&1; then
  echo "smi"
  nvidia-smi -i 0 --query-gpu=name,compute_cap,driver_version --format=csv,noheader 2>/dev/null | sed 's/^/gpu /'
  {ASK_OTHERS} 2>/dev/null | sed 's/^/other /'
  {ASK_ERRORS} 2>/dev/null | sed 's/^/errors /'
  {ASK_SAMPLE} 2>/dev/null | sed 's/^/sample /'
fi
echo "end"
"""


def inspect_gpu(reach: Reach, target: BoardKind, name: str) -> Iterator[Finding]:
    """Yield the findings of a host to which `reach` is connected, for boards of `target`, which has a GPU.

    Stops where there is none, or another one than the target's.
    """
    try:
        done = reach.run(f'devices="{DEVICES}"\n{_PROBE}', _PATIENCE_S)
    except BoardUnavailable as error:
        yield Finding("shell", False, error.message, f"edgetune boards shell {name}", True, error.exit_code)
        return
    if not done.stdout.endswith("end\n"):
        detail = f"its shell does not answer (status {done.status})"
        yield Finding("shell", False, detail, f"edgetune boards shell {name}", True, BoardLost.exit_code)
        return
    yield from findings(done.stdout, target)


def findings(text: str, target: BoardKind) -> Iterator[Finding]:
    """Judge what the probe of a host has printed; see `inspect_gpu`."""
    told: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        shown = "".join(letter for letter in value[:_MOST] if letter.isprintable())
        told.setdefault(key, []).append(shown.strip())
    found = _gpu(told, target)
    yield found
    if found.required:
        return
    yield from _health(told)
    yield _compiler(told)
    if "lock" in told:
        fix = "wait, or ask its owner, whom `edgetune tune` names"
        yield Finding("lock", False, "another run measures on it now", fix)
    else:
        yield Finding("lock", True, "no other run measures on it")


def _gpu(told: Mapping[str, list[str]], target: BoardKind) -> Finding:
    """The GPU and its compute capability, where nvidia-smi knows it; elsewhere the driver tells the runner later."""
    parts = [part.strip() for part in (told.get("gpu") or [""])[0].split(",")]
    capability = re.fullmatch(r"([0-9]{1,2})\.([0-9])", parts[1]) if len(parts) > 1 else None
    if capability is None:
        if "device" not in told:
            detail = "it has no NVIDIA GPU, or no driver for it"
            fix = "install NVIDIA's driver there, or correct `ssh:` in boards.yaml"
            return Finding("GPU", False, detail, fix, True, BoardUnavailable.exit_code)
        return Finding("GPU", True, f"{told['device'][0]}; the first round shows its compute capability")
    shown = f"{parts[0]}, compute capability {capability[0]}, driver {parts[-1]}"
    if isinstance(target, GpuTarget):
        major, minor = divmod(target.compute_capability, 10)
        if int(capability[1]) != major or int(capability[2]) < minor:
            detail = f"{shown}: '{target.name}' needs {major}.{minor}, or a higher one that begins with {major}"
            fix = "set `target:` in boards.yaml to its kind (`edgetune boards list`)"
            return Finding("GPU", False, detail, fix, True, BoardUnfit.exit_code)
    return Finding("GPU", True, shown)


def _health(told: Mapping[str, list[str]]) -> Iterator[Finding]:
    """What makes times doubtful; none of it prevents measuring."""
    samples = "\n".join(told.get("sample", [])) if "smi" in told else None
    faults = list(health_faults(samples, "\n".join(told.get("other", [])), (told.get("errors") or [""])[0]))
    for fault in faults:
        detail, _, fix = fault.partition(": ")
        yield Finding(
            "GPU health", False, f"its GPU {detail}", fix or "`nvidia-smi -q -d PERFORMANCE` there tells more"
        )
    now = next((sample for line in told.get("sample", []) if (sample := GpuSample.of(line)) is not None), None)
    if not faults and now is not None:
        yield Finding("GPU health", True, f"{now.words}; no limit slows it, no other process, no memory errors")


def _compiler(told: Mapping[str, list[str]]) -> Finding:
    if "compiler" in told:
        return Finding("C compiler", True, told["compiler"][0])
    detail = "there is none for the runner of rounds"
    return Finding("C compiler", False, detail, "install gcc there", True, ToolchainMissing.exit_code)
