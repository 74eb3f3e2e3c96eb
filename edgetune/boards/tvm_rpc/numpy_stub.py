"""Stub that boards get as `numpy`: TVM's RPC server imports it and names a few of its types, but never computes.

The real numpy is four fifths of the server's files, and a second of its start on a slow board.
"""

from __future__ import annotations


def __getattr__(name: str) -> type:
    """Return a type with that name, always the same one."""
    if name.startswith("_"):
        raise AttributeError(name)
    made = type(name, (), {"__init__": _refuse})
    globals()[name] = made
    return made


def _refuse(self: object, *arguments: object, **named: object) -> None:
    del arguments, named
    if type(self).__name__ != "dtype":  # tvm_ffi looks up names of types, and never finds one
        raise RuntimeError("this server has no numpy, because a board computes nothing with it")
