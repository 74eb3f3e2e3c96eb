"""Core files of a package: header, kernels, weights, runtime, self-test, benchmark, example, README and licence."""

from __future__ import annotations

from dataclasses import dataclass

from edgetune.package.constants import Weights
from edgetune.package.interface import Interface
from edgetune.package.package_file import PackageFile
from edgetune.package.program_image import ProgramImage
from edgetune.package.vectors import Vectors


@dataclass(frozen=True)
class Blob:
    """A binary file linked by an assembler file, which defines `symbol` over the bytes of `file`."""

    symbol: str
    file: str
    what: str
    nbytes: int
    section_macro: str


def core_files(api: Interface, weights: Weights, vectors: Vectors, image: ProgramImage) -> tuple[PackageFile, ...]:
    """Return the files that every package has, whatever builds it.

    What lies in src/ is the library, in this order. What lies in test/ as assembler text is linked into the tests.
    """
    p = api.prefix
    return (
        PackageFile(f"include/{p}.h", "core/public.h.j2"),
        PackageFile(f"src/{p}.c", "core/run.c.j2"),
        PackageFile(f"src/{p}_kernels.h", "core/kernels.h.j2"),
        PackageFile(f"src/{p}_kernels.c", "core/kernels.c.j2"),
        PackageFile(f"src/{p}_rt.h", "core/rt.h.j2"),
        PackageFile(f"src/{p}_rt.c", "core/rt.c.j2"),
        *_thread_files(api),
        *vector_files(api, vectors),
        *weight_files(api, weights),
        *(PackageFile(f"test/{p}_{program}.c", image.template(program)) for program in image.programs),
        *image.files,
        PackageFile("examples/main.c", "core/example.c.j2"),
        PackageFile("README.md", "core/README.md.j2"),
        PackageFile("LICENSE", "core/LICENSE"),
    )


def _thread_files(api: Interface) -> tuple[PackageFile, ...]:
    if api.threads == 1:
        return ()
    return (
        PackageFile(f"src/{api.prefix}_parallel.h", "core/parallel.h.j2"),
        PackageFile(f"src/{api.prefix}_parallel.c", "core/parallel.c.j2"),
    )


def vector_files(api: Interface, vectors: Vectors) -> tuple[PackageFile, ...]:
    """Return the golden vectors in C text or in a binary file."""
    p = api.prefix
    header = PackageFile(f"test/{p}_vectors.h", "core/vectors.h.j2")
    if not vectors.binary:
        return (header,)
    blob = Blob(
        f"{p}__vectors", f"{p}_vectors.bin", f"{p}: golden vectors", vectors.nbytes, f"{api.upper}_VECTORS_SECTION"
    )
    return (header, PackageFile(f"test/{blob.file}", vectors.image), _assembly(f"test/{p}_vectors.S", blob))


def weight_files(api: Interface, weights: Weights) -> tuple[PackageFile, ...]:
    """Return the weights in C text or in a binary file, which only the tests link where weights are bound at init."""
    if not weights.items:
        return ()
    p = api.prefix
    header = PackageFile(f"src/{p}_weights.h", "core/weights.h.j2")
    if weights.placement == "text":
        return (header, PackageFile(f"src/{p}_weights.c", "core/weights.c.j2"))
    path, symbol, what = f"src/{p}_weights.S", f"{p}__weights", f"{p}: the weights"
    if api.external_weights:
        path, symbol, what = f"test/{p}_test_weights.S", f"{p}__test_weights", f"{p}: the weights, for the tests"
    blob = Blob(symbol, f"{p}_weights.bin", what, weights.nbytes, f"{api.upper}_WEIGHTS_SECTION")
    return (header, PackageFile(f"src/{blob.file}", weights.image), _assembly(path, blob))


def _assembly(path: str, blob: Blob) -> PackageFile:
    return PackageFile(path, "core/blob.S.j2", {"blob": blob})
