"""A package from records of other C text: one sentence says that they do not count."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetune import api
from edgetune.config.settings import CommandLineFlags, resolve_settings
from edgetune.events import Event
from edgetune.pipeline.compile_input import load
from edgetune.records import RecordStore
from edgetune.target.target import with_cpu
from tests.flags_sample import write_model
from tests.search.test_migrate import record


@pytest.mark.long
def test_a_build_says_once_that_older_records_do_not_count(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx")
    flags = CommandLineFlags(
        model=tmp_path / "m.onnx", board="generic-aarch64", out=tmp_path / "out", db=tmp_path / "db"
    )
    settings = resolve_settings(flags, {}, tmp_path)
    kernels = {kernel.workload: kernel for kernel in load(settings).program.kernels}
    with RecordStore.open(settings.db) as store:
        for kernel in [*kernels.values()][:2]:
            store.add(record(kernel, with_cpu(settings.target), same=False))
    events: list[Event] = []
    api.build(settings, events=events.append)
    said = [str(event.data["message"]) for event in events if "do not count" in str(event.data.get("message", ""))]
    (sentence,) = said
    assert sentence == (
        "the records of 2 kernels do not count: another version of edgetune timed them as other C text; "
        "`edgetune tune` times them anew"
    )
