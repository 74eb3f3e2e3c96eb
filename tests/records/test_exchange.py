"""Records as JSONL: what goes out comes back, merging is a set union, and hostile lines stay outside."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgetune.errors import DatabaseError, OutputRefused
from edgetune.records import STATUSES, Record, RecordFilter, RecordStore
from edgetune.records.record import MAX_LINE_BYTES, parse_line, record_line
from tests.examples import costly

quick = settings(suppress_health_check=[HealthCheck.too_slow])


def hashes(kinds: int) -> st.SearchStrategy[str]:
    return st.integers(0, kinds).map(lambda number: hashlib.sha256(bytes([number])).hexdigest())


names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=12)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
amounts = st.floats(0, 1e12)
counts = st.integers(0, 2**63 - 1)
finite = st.floats(allow_nan=False, allow_infinity=False)
facts = st.dictionaries(texts, st.none() | st.booleans() | st.integers() | finite | texts, max_size=3)


@st.composite
def any_record(draw: st.DrawFn) -> Record:
    status = draw(st.sampled_from(STATUSES))
    samples = draw(st.lists(st.floats(1e-9, 1e15), min_size=int(status == "ok"), max_size=6))
    timed = bool(samples)
    return Record(
        workload=draw(hashes(2)),
        workload_name=draw(names),
        target=draw(names),
        target_fingerprint=draw(st.sampled_from("fg")),
        toolchain=draw(st.sampled_from("tu")),
        codegen_version=draw(st.integers(1, 2)),
        board=draw(st.sampled_from("ab")),
        candidate=draw(hashes(5)),
        status=status,  # type: ignore[arg-type]  # one of them, says STATUSES
        tool_version=draw(names),
        trace=draw(st.one_of(st.just(""), texts.map(json.dumps))),
        reason=draw(texts),
        samples_ns=tuple(samples),
        median_ns=sorted(samples)[len(samples) // 2] if timed else None,
        ci_low_ns=min(samples) if timed else None,
        ci_high_ns=max(samples) if timed else None,
        max_error=draw(st.none() | amounts),
        scratch_bytes=draw(counts),
        code_bytes=draw(counts),
        environment=draw(facts),
        seed=draw(counts),
        round=draw(counts),
        build_seconds=draw(amounts),
        measure_seconds=draw(amounts),
        created_utc=draw(st.datetimes().map(lambda moment: moment.isoformat() + "Z")),
    )


some_records = st.lists(any_record(), max_size=8)


def beside(store: RecordStore, suffix: str) -> Path:
    assert isinstance(store.location, Path)
    return store.location.with_suffix(suffix)


@contextmanager
def stores(count: int) -> Iterator[list[RecordStore]]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        yield [stack.enter_context(RecordStore.open(Path(folder) / f"db{number}")) for number in range(count)]


def fill(store: RecordStore, records: Iterable[Record]) -> None:
    for record in records:
        store.add(record)


def exported(store: RecordStore) -> bytes:
    path = beside(store, ".jsonl")
    store.export_jsonl(path)
    return path.read_bytes()


def merge(target: RecordStore, *sources: RecordStore) -> bytes:
    for source in sources:
        exported(source)
        assert target.import_jsonl(beside(source, ".jsonl")).refused == 0
    return exported(target)


def sample(number: int = 0, **changes: Any) -> Record:
    values: dict[str, Any] = {
        "workload": "0" * 64, "workload_name": "conv", "target": "host", "target_fingerprint": "f", "toolchain": "t",
        "codegen_version": 1, "board": "b", "candidate": hashlib.sha256(bytes([number])).hexdigest(),
        "status": "crashed", "tool_version": "1", "created_utc": f"2026-01-01T00:00:{number:02}Z",
    }  # fmt: skip
    return Record(**(values | changes))


@given(record=any_record())
def test_a_line_holds_all_of_a_record(record: Record) -> None:
    line = record_line(record)
    assert "\n" not in line
    assert parse_line(line) == record
    assert record_line(parse_line(line)) == line


@pytest.mark.long
@given(records=some_records)
@quick
def test_export_and_import_give_the_same_records(records: list[Record]) -> None:
    with stores(2) as (first, second):
        fill(first, records)
        lines = exported(first)
        counts = second.import_jsonl(beside(first, ".jsonl"))
        assert counts.imported == len(lines.splitlines()) == len(first.list())
        assert exported(second) == lines
        strip = [dataclasses.replace(first.get(row["id"]), id=0) for row in first.list()]
        assert sorted(map(record_line, strip)) == sorted(record_line(parse_line(line)) for line in lines.splitlines())


@pytest.mark.long
@given(left=some_records, right=some_records)
@settings(costly(12), suppress_health_check=[HealthCheck.too_slow])
def test_merging_in_either_order_gives_the_same(left: list[Record], right: list[Record]) -> None:
    with stores(4) as (first, second, one, other):
        fill(first, left)
        fill(second, right)
        merged = merge(one, first, second)
        assert merge(other, second, first) == merged
        assert merge(first, second) == merged
        assert merge(second, one, other) == merged
        again = one.import_jsonl(beside(other, ".jsonl"))
        assert (again.imported, again.replaced, again.refused) == (0, 0, 0)
        assert again.duplicates == len(merged.splitlines())
        assert exported(one) == merged


@pytest.mark.long
@given(lines=st.lists(st.binary(max_size=60) | any_record().map(lambda item: record_line(item).encode()), max_size=12))
@quick
def test_random_bytes_between_records_are_refused_by_line_number(lines: list[bytes]) -> None:
    with stores(1) as (store,):
        path = beside(store, ".in")
        path.write_bytes(b"\n".join(lines))
        counts = store.import_jsonl(path)
        physical = path.read_bytes().split(b"\n")
        filled = sum(bool(line.strip()) for line in physical)
        assert counts.imported + counts.duplicates + counts.replaced + counts.refused == filled
        assert all(physical[number - 1].strip() and reason for number, reason in counts.reasons)
        assert len(exported(store).splitlines()) == counts.imported


def test_the_earlier_measurement_of_a_candidate_stays_under_its_id(tmp_path: Path) -> None:
    late, early = sample(reason="late", created_utc="2026-02-02T00:00:00Z"), sample(reason="early")
    (tmp_path / "in").write_text(record_line(early) + "\n")
    with RecordStore.open(tmp_path / "db") as store:
        number = store.add(late)
        assert store.import_jsonl(tmp_path / "in").to_dict() == {
            "imported": 0, "duplicates": 0, "replaced": 1, "refused": 0, "reasons": [],
        }  # fmt: skip
        assert store.get(number).reason == "early"


def test_export_obeys_filters_and_order_but_not_ids(tmp_path: Path) -> None:
    records = [sample(number, target="host" if number % 2 else "rpi4") for number in range(10)]
    for name, order in {"a": records, "b": records[::-1]}.items():
        with RecordStore.open(tmp_path / name) as store:
            fill(store, order)
            assert store.export_jsonl(tmp_path / f"{name}.jsonl") == 10
            assert store.export_jsonl(tmp_path / f"{name}4.jsonl", RecordFilter(target="rpi4")) == 5
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert b'"id"' not in (tmp_path / "a.jsonl").read_bytes()
    assert b'"host"' not in (tmp_path / "a4.jsonl").read_bytes()


GOOD = json.loads(record_line(sample()))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("null", "it must be a group of keys, not nothing"),
        ("[]", "it must be a group of keys, not a list"),
        ('"x"', "it must be a group of keys, not 'x' (text)"),
        ("{}", "workload"),
        ("[" * 100_000, "it is not JSON"),
        (json.dumps(GOOD)[:-1], "it is not JSON: it is cut short"),
        (json.dumps(GOOD | {"extra": 1}), "extra"),
        (json.dumps(GOOD | {"status": "OK"}), "status"),
        (json.dumps(GOOD | {"status": "ok"}), "samples_ns"),
        (json.dumps(GOOD | {"workload": "'; DROP TABLE records; --"}), "workload"),
        (json.dumps(GOOD | {"seed": "1"}), "seed"),
        (json.dumps(GOOD | {"seed": 1e3}), "seed"),
        (json.dumps(GOOD | {"seed": 10**30}), "seed"),
        (json.dumps(GOOD | {"max_error": float("inf")}), "max_error"),
        (json.dumps(GOOD | {"samples_ns": [float("nan")]}), "samples_ns.0"),
        (json.dumps(GOOD | {"target": "\x1b]0;owned\x07"}), "target"),
        (json.dumps(GOOD | {"board": "x" * 501}), "board"),
        (json.dumps(GOOD | {"trace": "[" * 5000}), "recursion"),
        (json.dumps(GOOD | {"created_utc": "now"}), "isoformat"),
        (json.dumps(GOOD | {"environment": {"a": {"b": 1}}}), "environment.a"),
        (json.dumps(GOOD | {"reason": "x"}).replace('"x"', '"\\ud800"'), "it is not JSON"),
        (json.dumps(GOOD | {"trace": "x" * MAX_LINE_BYTES}), "longer than"),
    ],
)
def test_a_hostile_line_is_refused_and_its_neighbours_are_not(tmp_path: Path, line: str, reason: str) -> None:
    lines = [record_line(sample(1)), line, "", record_line(sample(2))]
    (tmp_path / "in").write_text("\r\n".join(lines), newline="")
    with RecordStore.open(tmp_path / "db") as store:
        counts = store.import_jsonl(tmp_path / "in")
        assert (counts.imported, counts.refused) == (2, 1)
        ((number, told),) = counts.reasons
        assert number == 2
        assert len(told) < 300
        assert reason in told
        assert store.count({item.key for item in (sample(1), sample(2))}) == 2


def test_many_refused_lines_are_counted_and_some_named(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"x\n" * 5000)
    with RecordStore.open(tmp_path / "db") as store:
        counts = store.import_jsonl(tmp_path / "in")
    assert counts.refused == 5000
    assert [number for number, _ in counts.reasons] == list(range(1, 101))


@pytest.mark.long
def test_a_batch_border_loses_no_line(tmp_path: Path) -> None:
    records = [sample(seed=number, candidate=hashlib.sha256(b"%d" % number).hexdigest()) for number in range(1203)]
    (tmp_path / "in").write_text("\n".join(map(record_line, records)))
    with RecordStore.open(tmp_path / "db") as store:
        assert store.import_jsonl(tmp_path / "in").imported == 1203
        assert [row["seed"] for row in store.list()] == list(range(1203))


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_file_that_cannot_be_imported_is_named(tmp_path: Path, name: str) -> None:
    with RecordStore.open(tmp_path / "db") as store, pytest.raises(DatabaseError, match="cannot import"):
        store.import_jsonl(tmp_path / name)


@pytest.mark.parametrize("name", ["missing/out", ".", "db", "link", "pipe"])
def test_an_export_replaces_nothing_precious_and_leaves_nothing_behind(tmp_path: Path, name: str) -> None:
    (tmp_path / "link").symlink_to("db")
    os.mkfifo(tmp_path / "pipe")
    with RecordStore.open(tmp_path / "db") as store:
        store.add(sample())
        before = sorted(tmp_path.iterdir())
        with pytest.raises(OutputRefused):
            store.export_jsonl(tmp_path / name)
        assert sorted(tmp_path.iterdir()) == before
        assert len(store.list()) == 1
