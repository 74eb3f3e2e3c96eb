"""Ways: the graph passes that not every package has."""

from __future__ import annotations

from typing import NamedTuple


class Ways(NamedTuple):
    """Which of the passes run that not every package has.

    Where it `joins_attention`, the two products of attention and what lies between them are one kernel. Where it
    `keeps_channels`, those that are one number for every input are computed.
    """

    joins_attention: bool = True
    keeps_channels: bool = False


USUAL = Ways()
