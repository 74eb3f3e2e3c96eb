"""Names of a target file that LLVM must know, and would ignore otherwise: its triple, its CPU and its features.

LLVM is asked through TVM, for what it lists. It lists neither other names of architectures nor vendors, systems and
environments of triples, for which it takes any text: the words below are those of its parser (LLVM 22,
llvm/lib/TargetParser/Triple.cpp). What the target's own compiler calls its machine and its CPUs is known as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache

import tvm
from tvm.target import codegen

from edgetune.target.target import KeyFault, Target
from edgetune.target.tool_names import compiler_cpus, compiler_machine, unknown_name

_VENDOR_WORDS = "unknown pc apple scei sie fsl ibm img mti nvidia csr amd mesa suse oe intel meta"
_SYSTEM_WORDS = """
none linux darwin dragonfly freebsd fuchsia ios kfreebsd lv macos macosx netbsd openbsd solaris uefi win32 windows zos
haiku rtems nacl aix cuda nvcl amdhsa ps elfiamcu tvos watchos bridgeos driverkit xros visionos mesa3d amdpal hermit
hurd wasi emscripten shadermodel liteos serenity vulkan unknown
"""
_ENVIRONMENT_WORDS = """
eabi eabihf gnu gnuabin32 gnuabi64 gnueabi gnueabihf gnueabit64 gnueabihft64 gnuf32 gnuf64 gnusf gnux32 gnu_ilp32 gnut64
code16 android androideabi musl muslabin32 muslabi64 musleabi musleabihf muslf32 muslsf muslx32 msvc itanium cygnus
coreclr simulator macabi opencl ohos pauthtest llvm elf coff macho wasm unknown
"""
_VENDORS = frozenset(_VENDOR_WORDS.split())
_SYSTEMS = frozenset(_SYSTEM_WORDS.split())
_ENVIRONMENTS = frozenset(_ENVIRONMENT_WORDS.split())
_VERSION = re.compile(r"(?<=[a-z])[\d.]+$")  # of a system or environment, as in android21
_OTHER_NAMES = frozenset(("amd64", "x86_64h", "arm64", "arm64e", "arm64ec", "i486", "i586", "i686"))
_WITH_VERSION = re.compile(r"(arm|thumb)(eb)?v.+")
_TYPICAL = ("armv7a", "armv7l", "thumbv6m", "thumbv7m", "thumbv7em", "thumbv8m.base", "thumbv8m.main")
_CLOSE_VENDOR = 0.8


def llvm_fault(target: Target) -> KeyFault | None:
    """Return a name in the file of `target` that neither LLVM nor its compiler knows, with the nearest; None for none.

    A compiler that is not installed knows none.
    """
    if (why := _triple_fault(target.triple, compiler_machine(target.compiler.cc))) != "":
        return KeyFault("triple", why)
    machine = f" for {target.triple.split('-')[0]}"
    if not _is_cpu(target):
        return KeyFault("cpu", unknown_name(target.cpu, "LLVM", _cpus(target.triple), machine))
    for feature in target.llvm_features:
        if (why := _feature_fault(target.triple, feature, machine)) != "":
            return KeyFault("llvm_features", why)
    return None


def _triple_fault(triple: str, compiled_for: Sequence[str]) -> str:
    """What is wrong in a triple, as the end of a sentence, "" for nothing; `compiled_for` is that of the compiler.

    LLVM must not be asked for anything of an architecture that it does not know: TVM crashes.
    """
    architecture, *rest = triple.split("-")
    known = _architectures()
    with_version = _WITH_VERSION.fullmatch(architecture) is not None
    if architecture not in known and not (with_version and _has_version(architecture)):
        return unknown_name(architecture, "LLVM", {*known, *_TYPICAL}, " as an architecture")
    systems = _SYSTEMS | set(compiled_for[1:])
    named = _VENDORS | _ENVIRONMENTS | systems
    for place, word in enumerate(rest):
        plain = _VERSION.sub("", word)
        if not word or {word, plain} & named:
            continue
        after = {_VERSION.sub("", later) for later in rest[place + 1 :]}
        # Anything may be a vendor, which stands before a system and has no effect, unless it looks like another name.
        if place == 0 and after & systems and not get_close_matches(word, sorted(named), 1, _CLOSE_VENDOR):
            continue
        return unknown_name(word, "LLVM", named, " in a triple")
    return ""


@cache
def _architectures() -> frozenset[str]:
    return frozenset(map(str, codegen.llvm_get_targets())) | _OTHER_NAMES


@cache
def _has_version(architecture: str) -> bool:
    """Whether LLVM knows the version in the name of an ARM architecture; it then enables the feature of that name."""
    features = codegen.llvm_get_cpu_features(_target(f"{architecture}-none-eabi"))
    return any(str(feature).startswith("armv") for feature in features)


def _is_cpu(target: Target) -> bool:
    """Whether LLVM or the compiler of `target` knows its CPU.

    LLVM does not list aliases, such as apple-m1; it enables the features of their CPUs.
    """
    if target.cpu in _cpus(target.triple) or target.cpu in compiler_cpus(target.compiler.cc):
        return True
    own, any_cpu = (codegen.llvm_get_cpu_features(_target(target.triple, cpu)) for cpu in (target.cpu, ""))
    return set(own) != set(any_cpu)


@cache
def _cpus(triple: str) -> frozenset[str]:
    return frozenset(map(str, codegen.llvm_get_cpu_archlist(_target(triple))))


def _feature_fault(triple: str, feature: str, machine: str) -> str:
    sign, name = feature[:1], feature[1:]
    if sign not in {"+", "-"}:
        return f"says '{feature}', which must begin with + or -: did you mean '+{feature}'?"
    known = _features(triple)
    if name in known or name in codegen.llvm_get_cpu_features(_target(triple, features=(f"+{name}",))):
        return ""
    return unknown_name(feature, "LLVM", {f"{sign}{one}" for one in known}, machine)


@cache
def _features(triple: str) -> frozenset[str]:
    """The features that any CPU has; LLVM has a few more, which it lists only where they are enabled."""
    found = {str(name) for cpu in _cpus(triple) for name in codegen.llvm_get_cpu_features(_target(triple, cpu))}
    return frozenset(found)


def _target(triple: str, cpu: str = "", features: Sequence[str] = ()) -> tvm.target.Target:
    options: dict[str, object] = {"kind": "llvm", "mtriple": triple}
    if cpu:
        options["mcpu"] = cpu
    if features:
        options["mattr"] = list(features)
    return tvm.target.Target(options)
