"""JSON Schema of what `edgetune inspect --json` prints: ``python -m edgetune.pipeline.schema FOLDER`` writes it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from edgetune.pipeline.inspection import Inspection


def schemas() -> dict[str, str]:
    """Return the text of the schema by file name."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Inspection.model_json_schema(mode="serialization"),
    }
    return {"inspect.schema.json": json.dumps(schema, indent=2, sort_keys=True) + "\n"}


if __name__ == "__main__":
    for file, text in schemas().items():
        (Path(sys.argv[1]) / file).write_text(text, encoding="utf-8")
