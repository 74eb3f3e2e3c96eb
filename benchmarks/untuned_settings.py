"""Settings of a build without records: one thread, no limits, and nothing that is searched."""

from __future__ import annotations

from pathlib import Path

from edgetune.config.settings import Settings
from edgetune.target.target import Target


def untuned_settings(model: Path, name: str, target: Target, folder: Path) -> Settings:
    """Those of the package called `name` of a model; records, of which there are none, and package are in `folder`."""
    return Settings(
        model=model,
        name=name,
        target=target,
        budget_trials=0,
        budget_seconds=None,
        objective="latency",
        ram_limit=None,
        flash_limit=None,
        seed=0,
        threads=1,
        db=folder / "records.db",
        out=folder / "package",
        shapes={},
        origins={},
    )
