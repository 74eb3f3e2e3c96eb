"""CMake: a CMakeLists.txt for `add_subdirectory`, which also installs what `find_package` reads."""

from __future__ import annotations

from edgetune.package.facts import PackageFacts
from edgetune.package.package_file import PackageFile


class CMakeFlavour:
    """The CMakeLists.txt; it writes the files for `find_package` and pkg-config when the package is installed."""

    name = "cmake"

    def files(self, facts: PackageFacts) -> tuple[PackageFile, ...]:
        """Return CMakeLists.txt, if such packages have one."""
        return (PackageFile("CMakeLists.txt", facts.content.cmake),) if facts.content.cmake else ()


CMAKE = CMakeFlavour()
