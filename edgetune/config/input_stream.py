"""Streams: inputs of a model of a window that come frame by frame, as flags and files state them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, StrictInt

from edgetune.yaml_reader.checked import Checked

_MOST = 2**31 - 1
_STATED = re.compile(r"(?P<name>.+):(?P<axis>-?\d{1,9})(=(?P<hop>\d{1,9}))?", re.DOTALL | re.ASCII)


@dataclass(frozen=True)
class InputStream:
    """An input that comes frame by frame: its time axis, and how many frames a step gets. A negative axis counts back.

    Step k gets the frames k * hop up to (k + 1) * hop.
    """

    axis: int
    hop: int = 1


class StreamEntry(Checked):
    """A stream in a file."""

    axis: Annotated[StrictInt, Field(ge=-_MOST, le=_MOST)] = Field(
        description="Time axis of the input, from 0; -1 is the last one."
    )
    hop: Annotated[StrictInt, Field(ge=1, le=_MOST)] = Field(
        default=1, description="Frames that a step of the package gets."
    )

    @property
    def stream(self) -> InputStream:
        """The stream as settings have it."""
        return InputStream(self.axis, self.hop)


def stream_of(text: str) -> tuple[str, InputStream]:
    """The input and the stream of `INPUT:AXIS[=HOP]`; the last colon separates, because names may contain one.

    Raises ValueError, with what is wrong in words.
    """
    found = _STATED.fullmatch(text)
    hop = int(found["hop"] or 1) if found else 0
    if found is None or not hop:
        raise ValueError(
            f"must look like features:1 or features:1=2, an input, its time axis and the frames of a step, not {text!r}"
        )
    return found["name"], InputStream(int(found["axis"]), hop)
