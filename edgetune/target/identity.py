"""Names for what a measured time depends on: the target as code generation sees it, and the compiler with its flags."""

from __future__ import annotations

import hashlib
import json
import subprocess
from functools import lru_cache

from edgetune.errors import ToolchainMissing
from edgetune.target.programs import compiler_of, require_program
from edgetune.target.target import Target
from edgetune.target.tool_process import run_tool

_DIGITS = 16
_PATIENCE_S = 20


def target_fingerprint(target: Target) -> str:
    """16 hex digits over what schedules and the C printer read of a target: equal digits mean comparable times."""
    facts: list[object] = [
        target.isa,
        target.triple,
        target.cpu,
        target.llvm_features,
        target.vector_bits,
        target.vector_registers,
    ]
    facts += [target.l1_bytes, target.l2_bytes, target.has_float16]
    if target.cpu_part:
        facts.append(target.cpu_part)
    if target.emulated:  # times of an emulator are compared only with times of the same emulator
        facts += [target.reach, target.clock]
    if target.debug_probe is not None:  # the part itself, at a clock and with wait states that its start sets
        facts += [target.reach, target.name, target.clock_mhz, target.debug_probe.start]
    if target.caches == "cold":
        facts.append(target.caches)
    return _digest(facts)


def toolchain_id(target: Target) -> str:
    """The compiler, its version and a digest of its flags, such as `gcc-12.2.0-3f9a0c1e5b7d2468`.

    Raises ToolchainMissing when the compiler is not installed or does not answer.
    """
    compiler = target.compiler
    flags = _digest([compiler.cflags, compiler.kernel_cflags])
    return f"{compiler.cc}-{_version(str(require_program(compiler_of(target))))}-{flags}"


@lru_cache(maxsize=8)
def _version(program: str) -> str:
    try:
        answer = run_tool([program, "-dumpfullversion", "-dumpversion"], timeout_s=_PATIENCE_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolchainMissing(f"{program} does not print its version ({error}); reinstall the compiler") from None
    return answer.stdout.strip().splitlines()[0]


def _digest(facts: object) -> str:
    return hashlib.sha256(json.dumps(facts, default=list, sort_keys=True).encode()).hexdigest()[:_DIGITS]
