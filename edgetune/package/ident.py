"""C identifiers from arbitrary names: valid in C and C++, unique, and the same on every run."""

from __future__ import annotations

from collections.abc import Sequence

from edgetune.config.naming import MAX_PREFIX, RESERVED, RESERVED_PREFIXES, identifier


def unique_identifiers(names: Sequence[str], fallback: str) -> tuple[str, ...]:
    """Return one identifier per name, all different and none reserved; valid names stay unchanged."""
    wanted = [identifier(name, fallback) for name in names]
    taken: dict[str, int] = {}
    for index, (name, want) in enumerate(zip(names, wanted, strict=True)):
        if name == want and want not in RESERVED and want not in taken:
            taken[want] = index
    owners = {index: want for want, index in taken.items()}
    result = []
    for index, want in enumerate(wanted):
        chosen = owners.get(index)
        if chosen is None:
            chosen = _free(want, fallback, taken)
            taken[chosen] = index
        result.append(chosen)
    return tuple(result)


def _free(want: str, fallback: str, taken: dict[str, int]) -> str:
    base = f"{want}_{fallback}" if want in RESERVED else want
    if base not in taken and base not in RESERVED:
        return base
    number = 2
    while f"{base}_{number}" in taken or f"{base}_{number}" in RESERVED:
        number += 1
    return f"{base}_{number}"


def package_prefix(name: str) -> str:
    """Return the prefix of a package: of its files, its symbols and, in capitals, its macros.

    It has at most 32 characters and no double or trailing underscore, so that the internal symbols `<prefix>__x` of one
    package never collide with those of another. Names in `RESERVED_PREFIXES` get `_net` appended.
    """
    prefix = identifier(name, "net", limit=MAX_PREFIX)
    return f"{prefix[: MAX_PREFIX - 4].rstrip('_')}_net" if prefix in RESERVED_PREFIXES else prefix


def kernel_symbol(prefix: str, kernel: str) -> str:
    """Return the external C symbol of the kernel called `kernel` (unique and C-safe) in the package `prefix`.

    The `k` separates it from internal symbols that are not kernels: `<prefix>__weights`, `<prefix>__w0` and so on.
    """
    return f"{prefix}__k_{kernel}"
