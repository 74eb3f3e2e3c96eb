"""The report of an image: one line of hexadecimal words, which must be all that the image prints."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from enum import IntEnum

from edgetune.boards import misconduct
from edgetune.boards.image.faults import FaultRegisters

_LINE = re.compile(rb"edgetune:((?: [0-9a-f]{8})+)\r?\n")
_WORDS, _FAULT_WORDS = 7, 8


class CallVerdict(IntEnum):
    """What an image found, as in templates/image/image.h."""

    RIGHT = 0
    DIFFERS = 1
    BEFORE = 2
    BEHIND = 3
    CHANGED = 4
    MODE = 5
    CODE = 6
    STACK = 7
    FAULT = 8


@dataclass(frozen=True)
class ImageReport:
    """What an image found in `call` (1 or 2); `reason` says what is wrong, "" where nothing is.

    `worst_relative` is the error of the worst output, of the largest value of its reference. `stack_bytes` is what the
    candidate used below its caller's frame. `cycles` are what no call took and then each counted one, where the image
    counts them itself.
    """

    verdict: CallVerdict
    reason: str
    call: int = 0
    worst_relative: float = 0.0
    stack_bytes: int = 0
    cycles: tuple[int, ...] = ()


def is_report(line: bytes, identity: int) -> bool:
    """Whether a line, without its end, has the form of a report of the image `identity`."""
    match = _LINE.fullmatch(line + b"\n")
    return match is not None and int(match[1].split()[0], 16) == identity


def read_report(line: bytes, identity: int, parameters: int, counted: int = 0) -> ImageReport | None:
    """Return the report of the image `identity`, of a candidate with so many `parameters` (without scratch).

    `counted` is the number of words of cycles at its end. None where `line` is no such report.
    """
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    own, *words = (int(word, 16) for word in match[1].split())
    if own != identity or not words:
        return None
    if words[0] == CallVerdict.FAULT and len(words) == _FAULT_WORDS:
        return ImageReport(CallVerdict.FAULT, FaultRegisters(*words[1:]).describe())
    if words[0] >= CallVerdict.FAULT or len(words) not in {_WORDS, _WORDS + counted}:
        return None
    verdict, call, parameter = CallVerdict(words[0]), words[1], words[2]
    absolute, relative, worst = (_float(word) for word in words[3:6])
    reason = _reason(verdict, parameter, parameters, absolute, relative)
    return ImageReport(verdict, reason, call, worst, words[6], tuple(words[_WORDS:]))


def _reason(verdict: CallVerdict, parameter: int, parameters: int, absolute: float, relative: float) -> str:
    return {
        CallVerdict.RIGHT: "",
        CallVerdict.DIFFERS: misconduct.wrong_output(parameter, absolute, relative),
        CallVerdict.BEFORE: misconduct.stray_write(parameter, parameters, misconduct.BEFORE),
        CallVerdict.BEHIND: misconduct.stray_write(parameter, parameters, misconduct.AFTER),
        CallVerdict.CHANGED: misconduct.changed_input(parameter),
        CallVerdict.MODE: misconduct.LEFT_MODE,
        CallVerdict.CODE: misconduct.CHANGED_CODE,
        CallVerdict.STACK: misconduct.TOO_MUCH_STACK,
    }[verdict]


def _float(bits: int) -> float:
    return float(struct.unpack("<f", bits.to_bytes(4, "little"))[0])
