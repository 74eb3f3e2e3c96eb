"""Finding: one fact that a check found, and the command that fixes a fault."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """``fix`` is a command line or an instruction, empty where there is no fault; ``exit_code`` counts if required.

    ``board`` names the board that was checked, "" for this machine.
    """

    check: str
    ok: bool
    detail: str
    fix: str = ""
    required: bool = False
    exit_code: int = 1
    board: str = ""

    def to_json(self) -> dict[str, object]:
        """Return the finding as a JSON object."""
        return asdict(self)
