"""Error translation: turns TVM errors about unsupported operators into errors of edgetune."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from edgetune.errors import TVM_REFUSALS, UnsupportedOperator


@contextmanager
def tvm_refusals() -> Iterator[None]:
    """Raise UnsupportedOperator if a TVM pass fails on a variant of an operator that TVM has imported."""
    try:
        yield
    except TVM_REFUSALS as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UnsupportedOperator(
            f"TVM refuses an operator of the model ({reason}); find it by cutting the model in two, "
            "and simplify it before export"
        ) from error
