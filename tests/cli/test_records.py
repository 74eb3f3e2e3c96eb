"""``edgetune records`` against a real database: list, show, export, import, prune."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from edgetune.cli.main import run
from edgetune.errors import DatabaseError
from edgetune.pipeline.database import database_findings
from edgetune.records import Record, RecordStore
from tests.postgresql_server import PostgresqlServer

DB = Path("records.db")


def record(number: int, median_us: float | None) -> Record:
    ok = median_us is not None
    ns = float((median_us or 0.0) * 1000)
    return Record(
        workload="ab" * 32,
        workload_name="conv2d_relu",
        target="host",
        target_fingerprint="fingerprint",
        toolchain="gcc 12",
        codegen_version=1,
        board="host",
        candidate=f"{number:064x}",
        status="ok" if ok else "wrong_result",
        tool_version="0.1.0",
        trace="[]" if ok else "",
        reason="" if ok else "differs",
        samples_ns=(ns, ns) if ok else (),
        median_ns=ns if ok else None,
        ci_low_ns=ns if ok else None,
        ci_high_ns=ns if ok else None,
        max_error=0.0 if ok else None,
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with RecordStore.open(DB) as store:
        for number, median in enumerate([12.5, 11.25, None]):
            store.add(record(number, median))
    return tmp_path


def test_list_is_one_json_list(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["records", "list", "--db", str(folder / DB), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["median_ns"] for row in rows] == [12500.0, 11250.0, None]
    assert run(["records", "list", "--db", str(DB), "--status", "ok", "--limit", "1", "--json"]) == 0
    assert [row["median_ns"] for row in json.loads(capsys.readouterr().out)] == [11250.0]
    assert run(["records", "list", "--db", str(DB)]) == 0
    said = capsys.readouterr()
    assert "conv2d_relu" in said.out
    assert "12.50" in said.out
    assert said.err == "edgetune: 3 records\n"


def test_list_before_anything_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["records", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert run(["records", "list"]) == 0
    assert "there are no records yet" in capsys.readouterr().err
    assert run(["records", "list", "--db", "gone.db"]) == DatabaseError.exit_code
    assert "there is no records database" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("folder")
def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["records", "show", "2", "--db", str(DB), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["id"], shown["median_ns"], shown["trace"]) == (2, 11250.0, "[]")
    assert run(["records", "show", "99", "--db", str(DB)]) == 13
    assert "99" in capsys.readouterr().err


def test_export_import_and_prune(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["records", "export", "all.jsonl", "--db", str(DB), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"exported": 3, "file": "all.jsonl"}
    assert run(["records", "import", "all.jsonl", "--db", "other.db", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["imported"] == 3
    (folder / "bad.jsonl").write_text("no json\n", encoding="utf-8")
    assert run(["records", "import", "bad.jsonl", "--db", "other.db"]) == 13
    assert "bad.jsonl is not an export of edgetune (line 1" in capsys.readouterr().err
    (folder / "mixed.jsonl").write_bytes((folder / "all.jsonl").read_bytes() + b"no json\n")
    assert run(["records", "import", "mixed.jsonl", "--db", "other.db"]) == 13
    assert "1 lines of mixed.jsonl were refused, first line 4" in capsys.readouterr().err
    assert run(["records", "list", "--db", str(DB), "--status", "okk"]) == 2
    assert "did you mean 'ok'" in capsys.readouterr().err
    assert run(["records", "list", "--db", str(DB), "--target", "rpi44"]) == 2
    assert "unknown target 'rpi44': did you mean 'rpi4'" in capsys.readouterr().err
    assert run(["records", "prune", "--keep-best", "1", "--dry-run", "--db", str(DB)]) == 0
    assert capsys.readouterr().out == "would prune 2 records, and would keep 1 of 1 kernels\n"
    assert run(["records", "prune", "--keep-best", "1", "--db", str(DB), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "pruned": 2,
        "dry_run": False,
        "kernels": 1,
        "fastest": 1,
        "spare": 0,
    }


def graded(number: int, trust: str | None, board: str, **facts: str) -> Record:
    environment: dict[str, Any] = {
        **({} if trust is None else {"trust": trust, "trust_reason": f"reason {number}"}),
        **facts,
    }
    return dataclasses.replace(record(number, 10.0 + number), board=board, environment=environment)


@pytest.fixture
def boards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with RecordStore.open(DB) as store:
        store.add(graded(0, "A", "shelf-1"))
        store.add(graded(1, "C", "shelf-2"))
        store.add(graded(2, None, "shelf-2"))
        store.add(graded(3, "D", "qemu-aarch64", clock="instructions"))
        store.add_again(dataclasses.replace(record(3, None), board="qemu-aarch64", reason="signal 11"))
        store.add_again(graded(3, "D", "qemu-aarch64", clock="instructions"))
    return tmp_path


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        (["--board", "shelf-2"], [2, 3]),
        (["--board", "shelf"], []),
        (["--min-trust", "A"], [1]),
        (["--min-trust", "C"], [1, 2]),
        (["--min-trust", "D"], [1, 2, 3, 4]),
        (["--min-trust", "C", "--board", "shelf-2", "--limit", "1"], [2]),
    ],
)
@pytest.mark.usefixtures("boards")
def test_boards_and_trust_choose(capsys: pytest.CaptureFixture[str], flags: list[str], found: list[int]) -> None:
    assert run(["records", "list", "--db", str(DB), "--json", *flags]) == 0
    assert [row["id"] for row in json.loads(capsys.readouterr().out)] == found
    if "--limit" not in flags:
        assert run(["records", "export", "out.jsonl", "--db", str(DB), "--json", *flags]) == 0
        assert json.loads(capsys.readouterr().out)["exported"] == len(found)


@pytest.mark.usefixtures("boards")
def test_tables_show_board_trust_and_what_was_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["records", "list", "--db", str(DB)]) == 0
    table = capsys.readouterr().out
    for word in ("shelf-1", "trust", "instructions", "13000"):
        assert word in table
    assert run(["records", "show", "1", "--db", str(DB)]) == 0
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines() if line.strip()][1:5] == [
        "id",
        "workload",
        "board",
        "status",
    ]
    assert "reason 0" in shown
    assert "instructions" not in shown
    assert run(["records", "show", "4", "--db", str(DB)]) == 0
    shown = capsys.readouterr().out
    assert "13000" in shown
    assert "instructions" in shown
    assert "wrong_result (signal 11)" in shown
    assert run(["records", "show", "3", "--db", str(DB)]) == 0
    assert "not graded" in capsys.readouterr().out


def test_lines_keep_board_trust_clock_and_history(boards: Path) -> None:
    with RecordStore.open(DB) as store, RecordStore.open(boards / "other.db") as other:
        store.export_jsonl(boards / "all.jsonl")
        other.import_jsonl(boards / "all.jsonl")
        for row in store.list():
            (twin,) = [item for item in other.list() if item["candidate"] == row["candidate"]]
            assert twin | {"id": 0} == row | {"id": 0}
        assert len(other.list()) == 4


@pytest.mark.parametrize("address", ["sqlite:///records.db", "s3://bucket/r.db"])
@pytest.mark.parametrize("words", [["records", "list"], ["records", "prune"], ["tune", "m.onnx"], ["build", "m.onnx"]])
def test_the_address_of_another_server_is_refused(
    words: list[str], address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([*words, "--db", address]) == 2
    kind = address.partition(":")[0]
    assert f"must be the path of a file or postgresql://USER@HOST/NAME, not {kind}://" in capsys.readouterr().err
    monkeypatch.setenv("EDGETUNE_DB", address)
    assert run(["records", "list"]) == 3
    assert "environment variable EDGETUNE_DB must be the path of a file" in capsys.readouterr().err
    monkeypatch.delenv("EDGETUNE_DB")
    (tmp_path / "edgetune.yaml").write_text(f"model: m.onnx\ndb: {address}\n", encoding="utf-8")
    assert run(["records", "list"]) == 3
    assert "edgetune.yaml, line 2: 'db' must be the path of a file" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["edgetune.yaml"]


@pytest.mark.long
def test_records_of_a_server_are_listed_pruned_and_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    server = PostgresqlServer()
    try:
        url = server.new_database().text
        assert run(["records", "list", "--db", url]) == DatabaseError.exit_code
        assert f"{url} has no records yet" in capsys.readouterr().err
        with RecordStore.open("file.db") as store:
            for number in range(3):
                store.add(record(number, 10.0 + number))
        assert run(["records", "copy", "file.db", url, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["imported"] == 3
        monkeypatch.setenv("EDGETUNE_DB", url)
        assert run(["records", "prune", "--keep-best", "1", "--json"]) == 0
        capsys.readouterr()
        assert run(["records", "list", "--json"]) == 0
        assert [row["median_ns"] for row in json.loads(capsys.readouterr().out)] == [10_000.0]
        assert run(["records", "copy", "missing.db", "other.db"]) == 13
        assert "there is no records database" in capsys.readouterr().err
        assert not Path("other.db").exists()
        found = [one.check for one in database_findings(os.environ, tmp_path) if one.ok]
        assert found == ["records server", "records size"]
        server.stop()
        (fault,) = database_findings(os.environ, tmp_path)
        assert "cannot be reached" in fault.detail
        assert fault.required
        server.start()
    finally:
        server.remove()


def test_a_password_in_a_url_is_refused_and_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["records", "list", "--db", "postgresql://u:hunter2@h/records"]) == 2
    told = capsys.readouterr().err
    assert "must not have a password in the URL: write it to ~/.pgpass" in told
    assert "hunter2" not in told
