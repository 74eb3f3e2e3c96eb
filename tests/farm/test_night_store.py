"""Rows of a night: only the present attempt of a cell writes its one verdict; the archive gives back what it got."""

from __future__ import annotations

import errno
import hashlib
import io
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from sqlalchemy import select

from edgetune.errors import DiskFull, NightFault
from edgetune.farm import archive
from edgetune.farm.cells import Cell
from edgetune.farm.night_store import Night, NightStore, Verdict
from edgetune.farm.night_tables import attempts
from edgetune.records import RecordStore
from tests.postgresql_server import Place

CELL = Cell("m", "b", "k", searches=True, settings="s")


@pytest.fixture
def store(place: Place) -> Iterator[NightStore]:
    with NightStore.open(place("records.db"), create=True) as opened:
        yield opened


def begin(store: NightStore, name: str = "2026-01-01") -> Night:
    facts = {"farm": "f", "night": name, "ends_utc": None, "host": "h", "tool_version": "1", "owner": "", "limit": 0.02}
    return begun(store, facts)


def begun(store: NightStore, facts: Mapping[str, object]) -> Night:
    night = store.begin(facts, [CELL])
    assert night is not None
    return night


def test_an_attempt_that_comes_back_writes_no_verdict(store: NightStore) -> None:
    night = begin(store)
    (row,) = store.cells(night)
    first, second = store.start_attempt(row.id, "h1"), store.start_attempt(row.id, "h2")
    assert not store.is_present(row.id, first)
    assert not store.judge(row.id, first, Verdict("slower"), accept=_acceptance("dead"))
    assert store.accepted("f", CELL) is None
    assert store.judge(row.id, second, Verdict("first"), accept=_acceptance("alive"))
    assert not store.judge(row.id, second, Verdict("faster"))
    (row,) = store.cells(night)
    assert row.verdict is not None
    assert row.verdict.verdict == "first"
    accepted = store.accepted("f", CELL)
    assert accepted is not None
    assert accepted.package == "alive"


def _acceptance(package: str) -> dict[str, object]:
    names = {"farm": "f", "cell": CELL.name, "settings": "s", "night": "n", "by": "me", "because": "it is right"}
    return {**names, "package": package, "facts": {}}


def test_a_cancelled_cell_is_taken_from_its_attempt(store: NightStore) -> None:
    night = begin(store)
    (row,) = store.cells(night)
    attempt = store.start_attempt(row.id, "h")
    assert store.cancel(row.id, "cancelled by me")
    assert not store.is_present(row.id, attempt)
    assert not store.judge(row.id, attempt, Verdict("slower"))
    assert not store.cancel(row.id, "again")
    store.rerun(night, row.id)
    assert store.cells(night)[0].verdict is None


def test_an_attempt_is_stored_as_what_became_of_it(store: NightStore) -> None:
    """Its host sees the same each time: the cell is not the attempt's any more."""
    night = begin(store)
    (row,) = store.cells(night)

    def outcomes() -> list[str]:
        with store.database.reading() as connection:
            return list(connection.scalars(select(attempts.c.outcome).order_by(attempts.c.number)))

    for host in ("killed", "frozen", "slow", "cancelled"):
        store.start_attempt(row.id, host)
    superseded = [f"superseded by attempt {number} of host {host}" for number, host in ((2, "frozen"), (3, "slow"))]
    superseded += ["superseded by attempt 4 of host cancelled"]
    assert outcomes() == [*superseded, ""]
    store.end_attempt(row.id, 2, "frozen for 64 s")
    store.end_attempt(row.id, 3, "cancelled")
    store.cancel(row.id, "cancelled by me")
    expected = [superseded[0], f"frozen for 64 s; {superseded[1]}", superseded[2], "cancelled by me"]
    assert outcomes() == expected
    store.end_attempt(row.id, 4, "cancelled")
    assert outcomes() == expected
    store.rerun(night, row.id)
    attempt = store.start_attempt(row.id, "last")
    assert store.judge(row.id, attempt, Verdict("faster"))
    store.end_attempt(row.id, attempt, "cancelled")
    assert outcomes() == [*expected, "finished: faster"]


def test_a_night_whose_records_are_not_kept_any_more_keeps_its_verdicts(store: NightStore) -> None:
    night = begin(store)
    (row,) = store.cells(night)
    assert store.judge(row.id, store.start_attempt(row.id, "h"), Verdict("first"))
    begin(store, "2026-01-02")
    with pytest.raises(NightFault, match=r"night 2026-01-01 cannot go on: .* since night 2026-01-02 began"):
        store.rerun(night, row.id)
    (row,) = store.cells(night)
    assert row.verdict is not None


def test_a_cell_that_is_measured_again_is_not_cut_off_by_the_window_of_its_night(store: NightStore) -> None:
    facts = {"farm": "f", "night": "2026-01-01", "host": "h", "tool_version": "1", "owner": "", "limit": 0.02}
    night = begun(store, {**facts, "ends_utc": "2026-01-01T06:00:00+00:00"})
    (row,) = store.cells(night)
    assert store.cancel(row.id, "the window was over")
    store.finish(night)
    store.rerun(night, row.id)
    (again,) = store.nights("f")
    assert (again.finished_utc, again.ends_utc) == (None, None)


def test_the_minutes_of_a_cell_are_those_of_its_last_judged_attempt(store: NightStore) -> None:
    (row,) = store.cells(begin(store))
    attempt = store.start_attempt(row.id, "h")
    assert store.judge(row.id, attempt, Verdict("first"))
    store.end_attempt(row.id, attempt, "done")
    minutes = store.minutes("f")
    assert list(minutes) == [CELL.name]
    assert 0 <= minutes[CELL.name].all < 1


def test_an_accepted_package_counts_for_its_settings_alone(store: NightStore) -> None:
    store.accept(_acceptance("p"))
    assert store.accepted("f", CELL) is not None
    assert store.accepted("f", Cell("m", "b", "k", searches=True, settings="t")) is None
    assert store.accepted("g", CELL) is None


def test_a_database_of_nights_is_still_a_records_database(store: NightStore, place: Place) -> None:
    begin(store)
    store.close()
    with RecordStore.open(place("records.db"), create=False) as records:
        assert records.list() == []


def test_a_database_without_nights_has_none(place: Place) -> None:
    RecordStore.open(place("records.db")).close()
    with NightStore.open(place("records.db"), create=False) as store:
        assert store.nights("f") == []
        assert store.minutes("f") == {}


def test_the_archive_keeps_equal_packages_once_and_notices_damage(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "package").mkdir(parents=True)
        (tmp_path / name / "package" / "a.c").write_text("int a;\n")
        (tmp_path / name / "built").mkdir()
        (tmp_path / name / "built" / "bench").write_bytes(b"\x7fELF")
    kept = tmp_path / "archive"
    digest = archive.keep(kept, tmp_path / "one")
    assert archive.keep(kept, tmp_path / "two") == digest
    assert archive.restore(kept, digest, tmp_path / "back") == ""
    assert (tmp_path / "back" / "built" / "bench").stat().st_mode & 0o100
    (file,) = kept.rglob("*.tar")
    file.write_bytes(file.read_bytes()[:-1])
    assert "damaged" in archive.restore(kept, digest, tmp_path / "again")
    file.unlink()
    assert "not in the archive" in archive.restore(kept, digest, tmp_path / "again")
    assert archive.keep(kept, tmp_path / "one") == digest
    assert archive.restore(kept, digest, tmp_path / "again") == ""


@pytest.mark.parametrize(
    ("name", "kind"),
    [("../out", tarfile.REGTYPE), ("/out", tarfile.REGTYPE), (".", tarfile.REGTYPE), ("link", tarfile.SYMTYPE)],
)
def test_nothing_is_written_outside_of_its_folder(tmp_path: Path, name: str, kind: bytes) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("package/a.c"))
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "/etc"
        tar.addfile(member)
    digest = hashlib.sha256(data.getvalue()).hexdigest()
    place = tmp_path / "archive" / digest[:2] / f"{digest}.tar"
    place.parent.mkdir(parents=True)
    place.write_bytes(data.getvalue())
    assert "more than files of its own folder" in archive.restore(tmp_path / "archive", digest, tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_an_archive_that_is_not_there_is_no_lost_package(tmp_path: Path) -> None:
    with pytest.raises(NightFault, match="is not there: mount it"):
        archive.restore(tmp_path / "unmounted", "0" * 64, tmp_path / "back")


def test_an_archive_that_cannot_be_written_keeps_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one" / "package").mkdir(parents=True)
    (tmp_path / "one" / "package" / "a.c").write_text("int a;\n")

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("edgetune.farm.archive.os.fsync", full)
    with pytest.raises(DiskFull, match="no space is left for the archive"):
        archive.keep(tmp_path / "archive", tmp_path / "one")
    assert not [path for path in (tmp_path / "archive").rglob("*") if path.is_file()]
