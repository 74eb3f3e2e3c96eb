"""Which options of a compiler change what float arithmetic gives, and what takes them back at the end of a line."""

from __future__ import annotations

from collections.abc import Sequence

# By what takes it back: the option that allows it. Options that allow several of them are below.
_ALLOWED_BY = {
    "-fno-unsafe-math-optimizations": "-funsafe-math-optimizations",
    "-fno-associative-math": "-fassociative-math",
    "-fno-reciprocal-math": "-freciprocal-math",
    "-fsigned-zeros": "-fno-signed-zeros",
    "-fno-finite-math-only": "-ffinite-math-only",
}
_UNSAFE = frozenset(_ALLOWED_BY) - {"-fno-finite-math-only"}
_SEVERAL = {
    "-funsafe-math-optimizations": _UNSAFE,
    "-ffast-math": frozenset(_ALLOWED_BY),
    "-Ofast": frozenset(_ALLOWED_BY),
}


def strict_math(asked: Sequence[str]) -> tuple[str, ...]:
    """Options that take back what anybody else's flags allow, but not what the flags `asked` end up allowing.

    They go last on the line of a file. A target that asks for one of these freedoms for its kernels keeps it.
    """
    kept: set[str] = set()
    for flag in asked:
        if flag in _ALLOWED_BY:
            kept.discard(flag)
        kept |= _SEVERAL.get(flag, frozenset())
        kept |= {back for back, allowing in _ALLOWED_BY.items() if allowing == flag}
    return tuple(back for back in _ALLOWED_BY if back not in kept)
