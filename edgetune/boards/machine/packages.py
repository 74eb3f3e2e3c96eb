"""Downloads Debian packages of another architecture: apt without privileges, with its own configuration and folder.

Mirrors, release and proxy are those of this system's apt. Nothing is installed and no package's script runs.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from edgetune.boards.machine.recipe import Recipe
from edgetune.errors import BoardUnavailable, DiskFull, ToolchainMissing, ToolHung
from edgetune.target.tool_process import run_tool

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_MIRRORS = (("http://deb.debian.org/debian", ""), ("http://deb.debian.org/debian-security", "-security"))
_PATIENCE_S = 600
_CARRIED = re.compile(r"^Acquire::(?!IndexTargets|Changelogs)")
_INST = re.compile(r"^Inst (\S+) \((\S+) ")
_FETCH = re.compile(r"^'[^']+' (\S+) (\d+) (\S+)$")


@dataclass(frozen=True)
class SystemPackage:
    """One package to download: its file name, size in bytes and checksum, as apt reports them."""

    name: str
    version: str
    file: str
    size: int
    checksum: str


@dataclass(frozen=True)
class Mirror:
    """One line of apt sources: address and suite, such as `bookworm-security`."""

    uri: str
    suite: str


class PackageSource:
    """Packages for `recipe`, downloaded into `folder`, which may be kept: existing files are not downloaded again.

    Raises ToolchainMissing (no apt here), BoardUnavailable (apt fails), DiskFull.
    """

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        for program in ("apt-get", "apt-config", "dpkg-deb"):
            if shutil.which(program) is None:
                raise ToolchainMissing(
                    f"{program} is not on PATH: images of emulated boards are made from Debian packages, "
                    f"so run this on Debian or Ubuntu, or in a container of it"
                )
        self._recipe = recipe
        self._apt = folder / "apt"
        self._files = folder / "packages"

    def resolve(self) -> list[SystemPackage]:
        """Query the mirrors for the newest versions; return all packages of the image, the kernel first."""
        self._configure()
        self._call("apt-get", "update", "--error-on=any")
        listed = self._call("apt-get", "install", "--simulate", *self._recipe.packages)
        chosen = [found.groups() for found in map(_INST.match, listed.splitlines()) if found]
        without = set(self._recipe.without_packages)
        wanted = [self._kernel(), *(f"{name}={version}" for name, version in chosen if name not in without)]
        fetch = self._call("apt-get", "download", "--print-uris", *wanted)
        described = [found.groups() for found in map(_FETCH.match, fetch.splitlines()) if found]
        if len(described) != len(wanted):
            raise BoardUnavailable(
                f"apt-get names {len(described)} files for {len(wanted)} packages of {self._recipe.architecture}: "
                f"`apt-get update` and try again"
            )
        by_name = {unquote(file).split("_")[0]: (file, int(size), checksum) for file, size, checksum in described}
        packages = []
        for want in wanted:
            name, _, version = want.partition("=")
            packages.append(SystemPackage(name, version, *by_name[name]))
        return packages

    def fetch(self, packages: list[SystemPackage]) -> list[Path]:
        """Download missing packages, remove those no longer needed; return the files in the same order."""
        self._files.mkdir(parents=True, exist_ok=True)
        missing = [package for package in packages if not self._is_there(package)]
        if missing:
            wanted = [f"{package.name}={package.version}" for package in missing]
            self._call("apt-get", "download", *wanted, folder=self._files)
        needed = {package.file for package in packages}
        for path in self._files.iterdir():
            if path.name not in needed:
                path.unlink()
        shutil.rmtree(self._apt / "cache", ignore_errors=True)  # large, and quickly regenerated
        return [self._files / package.file for package in packages]

    def missing_bytes(self, packages: list[SystemPackage]) -> int:
        """Return how many bytes `fetch` would download."""
        return sum(package.size for package in packages if not self._is_there(package))

    def _is_there(self, package: SystemPackage) -> bool:
        path = self._files / package.file
        return path.is_file() and path.stat().st_size == package.size

    def _kernel(self) -> str:
        shown = self._call("apt-cache", "show", "--no-all-versions", self._recipe.kernel)
        found = re.search(r"^Depends:.*?\b(linux-image-[^ ,]+) \(= ([^)]+)\)", shown, re.MULTILINE)
        if found is None:
            raise BoardUnavailable(f"package {self._recipe.kernel} names no kernel: correct 'kernel' in the recipe")
        return f"{found[1]}={found[2]}"

    def _configure(self) -> None:
        for part in ("lists/partial", "cache/archives/partial"):
            (self._apt / part).mkdir(parents=True, exist_ok=True)
        (self._apt / "status").touch()
        signed = f" [signed-by={_KEYRING}]" if _KEYRING.is_file() else ""
        if not signed and not _is_debian():
            raise ToolchainMissing(
                "the keys of Debian's archive are not installed: sudo apt-get install debian-archive-keyring"
            )
        lines = [f"deb{signed} {mirror.uri} {mirror.suite} main\n" for mirror in system_mirrors(self._recipe.suite)]
        (self._apt / "sources.list").write_text("".join(lines))
        carried = [line for line in _run(["apt-config", "dump"]).splitlines() if _CARRIED.match(line)]
        own = {
            "Dir::State": self._apt,
            "Dir::State::lists": self._apt / "lists",
            "Dir::State::status": self._apt / "status",
            "Dir::Cache": self._apt / "cache",
            "Dir::Cache::srcpkgcache": "",
            "Dir::Etc::sourcelist": self._apt / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::Etc::parts": "/dev/null",
            "Dir::Etc::main": "/dev/null",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "Dir::Log": self._apt,
            "APT::Architecture": self._recipe.architecture,
            "APT::Architectures": self._recipe.architecture,
            "APT::Install-Recommends": "false",
            "APT::Sandbox::User": "",
            "Acquire::Languages": "none",
            "Acquire::PDiffs": "false",
            "Acquire::Retries": "3",
        }
        text = "".join(f"{line}\n" for line in carried if not line.startswith(tuple(own)))
        text += "".join(f'{key} "{value}";\n' for key, value in own.items())
        configuration = self._apt / "apt.conf"
        configuration.touch(mode=0o600)  # it may contain a proxy's password
        configuration.write_text(text)

    def _call(self, *command: str, folder: Path | None = None) -> str:
        return _run(command, folder=folder, configuration=self._apt / "apt.conf")


def system_mirrors(suite: str) -> list[Mirror]:
    """Return the mirrors of this system's Debian release with its updates; elsewhere Debian's own for `suite`."""
    if _is_debian():
        release = _os_release().get("VERSION_CODENAME", suite)
        found = []
        for stanza in _run(["apt-get", "indextargets", "Created-By: Packages"]).split("\n\n"):
            facts = dict(line.split(": ", 1) for line in stanza.splitlines() if ": " in line)
            named = facts.get("Release", "")
            uri = facts.get("Repo-URI", "").rstrip("/")
            origin = facts.get("Origin", "")
            debian = origin == "Debian" or (not origin and uri.rpartition("/")[2].startswith("debian"))
            ours = named in {release, f"{release}-updates", f"{release}-security"}
            mirror = Mirror(uri, named)
            if debian and ours and facts.get("Component") == "main" and mirror not in found:
                found.append(mirror)
        if any(mirror.suite == release for mirror in found):
            return found
        suite = release
    return [Mirror(uri, suite + suffix) for uri, suffix in _MIRRORS]


def _is_debian() -> bool:
    return _os_release().get("ID") == "debian"


def _os_release() -> dict[str, str]:
    try:
        text = Path("/etc/os-release").read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {key: value.strip("\"'") for key, value in pairs}


def _run(command: tuple[str, ...] | list[str], *, folder: Path | None = None, configuration: Path | None = None) -> str:
    environment = {**os.environ, "LC_ALL": "C"}
    if configuration is not None:
        environment["APT_CONFIG"] = str(configuration)
    try:
        done = run_tool(command, timeout_s=_PATIENCE_S, folder=folder, environment=environment)
    except ToolHung:
        raise BoardUnavailable(
            f"`{' '.join(command[:2])}` has not ended after {_PATIENCE_S} s: look at the network, then run this again"
        ) from None
    if done.returncode != 0:
        complaints = [line[2:].strip() for line in done.stderr.splitlines() if line.startswith("E: ")]
        said = "; ".join(complaints[:2]) or done.stderr.strip()[-300:]
        if "No space left" in done.stderr or "enough free space" in done.stderr:
            raise DiskFull(f"no space for Debian packages ({said}): free some, or set XDG_CACHE_HOME")
        raise BoardUnavailable(f"`{' '.join(command[:2])}` failed ({said}): run this again when the mirror answers")
    return done.stdout
