"""GNU make: a Makefile, and the template of the pkg-config file that an installation writes."""

from __future__ import annotations

from edgetune.package.facts import PackageFacts
from edgetune.package.package_file import PackageFile


class MakeFlavour:
    """The Makefile, with which `edgetune verify` and `edgetune bench` build a package as well."""

    name = "make"

    def files(self, facts: PackageFacts) -> tuple[PackageFile, ...]:
        """Return Makefile and, where the Makefile installs the package, <prefix>.pc.in."""
        pkg_config = PackageFile(f"{facts.api.prefix}.pc.in", "make/package.pc.in.j2")
        return (PackageFile("Makefile", facts.content.makefile), *((pkg_config,) if facts.content.installs else ()))


MAKE = MakeFlavour()
