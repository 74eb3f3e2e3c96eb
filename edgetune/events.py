"""Events: what a long run reports to its listeners, in chronological order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

EventKind = Literal["round", "candidate", "task", "phase", "warning", "board", "stderr", "summary"]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened during ``tune`` or ``build``.

    ``data`` holds JSON values only. Keys that the progress display understands (all optional):

    * ``phase``: ``name`` (str), ``seconds`` (float, only when it ended)
    * ``task``: ``task`` (str), ``best_us`` (float), ``weight`` (int), ``trials`` (int)
    * ``round``: ``task``, ``best_us``, ``trials`` (done in total), ``budget_trials`` (int or null),
      ``elapsed_s``, ``budget_s`` (float or null), ``end_to_end_us`` (float or null),
      ``eta_s`` (float or null)
    * ``candidate``: ``task``, ``status`` (str), ``us`` (float or null)
    * ``warning``: ``message`` (str)
    * ``board``: ``board`` (its name), ``what`` (lost, recovered, quarantined, rung, locked, fallback, drift, noisy or
      agent), ``detail`` (a sentence)
    * ``stderr``: ``message`` (a line that a library or a child process wrote there), ``process`` (which one; absent
      for this process)
    * ``summary``: anything; printed as it is
    """

    kind: EventKind
    data: dict[str, object] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Return one flat JSON object, ``event`` holding the kind."""
        return {"event": self.kind, **self.data}
