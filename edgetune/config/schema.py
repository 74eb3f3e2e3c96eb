"""JSON Schemas of the YAML files, for editors: ``python -m edgetune.config.schema FOLDER`` writes them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pydantic import TypeAdapter

from edgetune.config.boards_file import BoardsFile
from edgetune.config.project import ProjectFile, UserFile
from edgetune.target.gpu import GpuTarget
from edgetune.target.target import DetectedTarget, Target


def schemas() -> dict[str, str]:
    """Return the text of each schema by file name."""
    models: dict[str, TypeAdapter[object]] = {
        "boards.schema.json": TypeAdapter(BoardsFile),
        "edgetune.schema.json": TypeAdapter(ProjectFile),
        "user.schema.json": TypeAdapter(UserFile),
        "target.schema.json": TypeAdapter(Target | DetectedTarget | GpuTarget),
    }
    return {
        name: json.dumps(
            {"$schema": "https://json-schema.org/draft/2020-12/schema", **adapter.json_schema(mode="validation")},
            indent=2,
            sort_keys=True,
        )
        + "\n"
        for name, adapter in models.items()
    }


def write_schemas(folder: Path) -> None:
    """Write all schemas into ``folder``."""
    for name, text in schemas().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1]))
