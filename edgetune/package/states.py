"""States in the context of a package: where each one lies, and the word that names their layout."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

import numpy as np

from edgetune.graph.program import Program, Ring, StateTensor
from edgetune.package.ctext import c_type, literals

WORD_BYTES = 8
"""Size of the word that names the layout, and alignment of the context and of each state in it."""


@dataclass(frozen=True)
class KeptState(StateTensor):
    """A state that lies `offset` bytes behind the start of what an instance keeps; `macro` names that offset.

    `copied`: a copy at the end of a run writes it. `buffer` is that of the program.
    """

    offset: int = 0
    copied: bool = False
    buffer: int = 0

    @property
    def first_macro(self) -> str:
        """The name of the constant that holds what it is before the first run, without the prefix of the package."""
        return f"FIRST_{self.buffer}"

    @property
    def macro(self) -> str:
        """The offset's name, without the prefix of the package."""
        return f"KEPT_{self.buffer}"

    @property
    def c_type(self) -> str:
        """Type of an element in C."""
        return c_type(self.dtype)

    @property
    def zero_literal(self) -> str:
        """`zero` in C."""
        return literals(np.full(1, self.zero, self.dtype))[0]

    @property
    def elements(self) -> int:
        """Number of elements in memory."""
        return prod(self.memory_shape)

    def value_in(self, copy: bytes, states: Sequence[KeptState]) -> np.ndarray:
        """Its value in a `copy` of all `states`."""
        memory = np.frombuffer(copy, self.dtype, self.elements, self.offset).reshape(self.memory_shape)
        if self.ring is None:
            return memory.copy()
        position = next(one for one in states if one.name_out == self.ring.position)
        return self.ring.in_order(memory, int(position.value_in(copy, states)), self.shape[self.ring.axis]).copy()

    @property
    def meaning(self) -> str:
        """What it is, for comments; names of the model are untrusted text."""
        if not self.of_model:
            return f"where the next rows of rings are written: {self.name_out}"
        rows = "" if self.ring is None else f", in a ring of {self.ring.rows} rows"
        return f"{self.name_in}, which is {self.name_out} of the run before{rows}"

    def to_json(self) -> dict[str, object]:
        """Plain JSON values for MANIFEST.json."""
        layout = {} if self.layout == "model" else {"layout": self.layout}
        first = {"first": base64.b64encode(self.values).decode("ascii")} if self.values else {}
        ring = None if self.ring is None else asdict(self.ring)
        return {
            **layout,
            **first,
            **({"ring": ring} if ring else {}),
            "input": self.name_in,
            "output": self.name_out,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "zero": self.zero,
            "offset": self.offset,
            "bytes": self.nbytes,
            "copied": self.copied,
        }

    @classmethod
    def from_json(cls, stated: Mapping[str, Any]) -> KeptState:
        """What `to_json` has written."""
        return cls(
            stated["input"],
            stated["output"],
            tuple(stated["shape"]),
            stated["dtype"],
            stated.get("layout", "model"),
            stated["zero"],
            base64.b64decode(stated.get("first", "")),
            Ring(**stated["ring"]) if "ring" in stated else None,
            stated["offset"],
            stated["copied"],
        )


def kept_states(program: Program) -> tuple[KeptState, ...]:
    """The states one after another, behind the word that names their layout."""
    from edgetune.graph.states import copy_into  # imports TVM

    kept = []
    offset = WORD_BYTES
    for one in program.states:
        facts = (one.name_in, one.name_out, one.shape, one.dtype, one.layout, one.zero, one.values, one.ring)
        kept.append(KeptState(*facts, offset, copy_into(program, one.buffer) is not None, one.buffer))
        offset += -(-one.nbytes // WORD_BYTES) * WORD_BYTES
    return tuple(kept)


def state_bytes(states: Sequence[KeptState]) -> int:
    """Bytes of what an instance keeps: the word and all states, 0 without states."""
    if not states:
        return 0
    last = states[-1]
    return last.offset + -(-last.nbytes // WORD_BYTES) * WORD_BYTES


def layout_word(states: Sequence[KeptState]) -> str:
    """The word that names the layout, in 16 hex digits: other names, shapes, types or places give another one."""
    facts = [[one.name_in, one.name_out, list(one.memory_shape), one.dtype, one.layout, one.offset] for one in states]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
