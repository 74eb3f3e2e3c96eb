"""Memoised functions of kernels: the results of the last calls are kept, for schedules ask for the same many times."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache, wraps
from typing import TypeVar, cast

from edgetune.tvm_types import PrimFunc

_Function = TypeVar("_Function", bound=Callable[..., object])


class _SameFunction:
    """A key that equals that of the same object alone: TVM's equality of expressions makes an expression of some."""

    def __init__(self, function: PrimFunc) -> None:
        self.function = function

    def __hash__(self) -> int:
        return hash(self.function)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameFunction) and bool(self.function.same_as(other.function))


def memoised(size: int) -> Callable[[_Function], _Function]:
    """Keeps the results of the last `size` calls of a function without effects, whose first argument is a PrimFunc.

    Callers share a result, so none may change it. The other arguments are hashable. Functions are told apart by
    identity: a copy is computed again. Functions whose results are kept stay in memory. Threads may call it.
    """

    def made(work: _Function) -> _Function:
        @lru_cache(size)
        def kept(key: _SameFunction, *args: Hashable, **kwargs: Hashable) -> object:
            return work(key.function, *args, **kwargs)

        @wraps(work)
        def known(function: PrimFunc, *args: Hashable, **kwargs: Hashable) -> object:
            return kept(_SameFunction(function), *args, **kwargs)

        return cast(_Function, known)

    return made
