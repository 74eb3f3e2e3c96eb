"""What a farm file may say, which line a fault is on, and when a night begins and ends."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from edgetune.errors import ConfigError
from edgetune.farm.calendar import clock_time, local_date, window_at, window_of
from edgetune.farm.cells import cells_of
from edgetune.farm.farm_file import Farm, load_farm
from edgetune.farm.run_cell import folder_of
from edgetune.farm.schema import schemas
from edgetune.resources import targets_dir

LINES = ["models:", "  a: a.onnx", "boards: [qemu-aarch64]", "budget: {trials: 4}"]


def farm_of(tmp_path: Path, *more: str, lines: list[str] | None = None) -> Farm:
    (tmp_path / "a.onnx").write_bytes(b"")
    path = tmp_path / "farm.yaml"
    path.write_text("\n".join([*(LINES if lines is None else lines), *more]) + "\n")
    return load_farm(path)


def test_a_path_alone_is_a_model_and_places_are_relative_to_the_file(tmp_path: Path) -> None:
    farm = farm_of(tmp_path)
    assert farm.models == {"a": tmp_path / "a.onnx"}
    assert (farm.name, farm.content.limit) == ("farm", 0.02)
    assert farm.db == tmp_path / "nightly" / "records.db"
    assert farm.archive == tmp_path / "nightly" / "archive"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("window: 22:00-22:00", "is empty"),
        ("window: 22-06", "two times of day"),
        ("timezone: Europe/Berlim", "IANA"),
        ("limit: 2", "a share from 0.1 %"),
        ("limit: 0.01 %", "a share from 0.1 %"),
        ("limt: 2 %", "limit"),
        ("db: mysql://host/db", "not mysql://"),
        ("folder: ~no-such-user/out", "'folder' names the folder of a user who does not exist"),
        ("archive: ~no-such-user/out", "'archive' names the folder of a user who does not exist"),
    ],
)
def test_a_fault_names_its_line(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"farm.yaml, line 5: .*{said}"):
        farm_of(tmp_path, line)


@pytest.mark.parametrize(
    ("lines", "line", "said"),
    [
        (["models: {a: ~no-such-user/a.onnx}", *LINES[2:]], 1, "'models.a' names the folder of a user who does not"),
        ([*LINES[:2], "boards: [qemu-aarch6]", LINES[3]], 3, "qemu-aarch64"),
        ([*LINES[:2], "boards: [rpi4]", LINES[3]], 3, "no board of target 'rpi4' has an address"),
        ([*LINES[:2], "boards: [cuda-generic]", LINES[3]], 3, "cannot be tuned"),
        ([*LINES[:2], "boards: [host, host]", LINES[3]], 3, "each board once"),
        (["models: {}", *LINES[2:]], 1, "at least 1 entry"),
        ([*LINES[:2], "  a: {file: a.onnx, threads: 2}", *LINES[2:]], 3, "key 'a' was given before, on line 2"),
        (["models: {a: {file: a.onnx, thread: 2}}", *LINES[2:]], 1, "did you mean 'threads'"),
    ],
)
def test_a_cell_that_cannot_be_is_refused_with_its_line(tmp_path: Path, lines: list[str], line: int, said: str) -> None:
    with pytest.raises(ConfigError, match=f"farm.yaml, line {line}: .*{said}"):
        cells_of(farm_of(tmp_path, lines=lines))


def test_two_models_with_files_of_one_name_have_folders_of_their_own(tmp_path: Path) -> None:
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "m.onnx").write_bytes(b"")
    farm = farm_of(tmp_path, lines=["models: {a: x/m.onnx, b: y/m.onnx, c: {file: y/m.onnx, threads: 2}}", *LINES[2:]])
    cells = cells_of(farm)
    assert len({folder_of(farm, "2026-01-01", cell) for cell in cells}) == len(cells) == 3


def test_one_cell_of_a_kind_searches_and_its_twins_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    boards = tmp_path / "config" / "edgetune" / "boards.yaml"
    boards.parent.mkdir(parents=True)
    boards.write_text("boards:\n  b: {target: rpi4, ssh: pi@b}\n  c: {target: rpi4, ssh: pi@c}\n")
    cells = cells_of(farm_of(tmp_path, lines=[*LINES[:2], "boards: [rpi4, host]", LINES[3]]))
    assert [(cell.name, cell.kind, cell.searches) for cell in cells] == [
        ("a@b", "rpi4", True),
        ("a@c", "rpi4", False),
        ("a@host", "host", True),
    ]


TAGGED = (
    "boards:\n"
    "  b: {target: rpi4, ssh: pi@b, tags: [shelf, cooled]}\n"
    "  c: {target: rpi4, ssh: pi@c, tags: [shelf]}\n"
    "  d: {target: rpi5, ssh: pi@d, tags: [cooled, shelf]}\n"
    "  e: {target: rpi5, ssh: pi@e, tags: [lone]}\n"
)


def write_boards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    boards = tmp_path / "config" / "edgetune" / "boards.yaml"
    boards.parent.mkdir(parents=True)
    boards.write_text(text)


def test_boards_are_chosen_by_all_of_the_tags_beside_those_that_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_boards(tmp_path, monkeypatch, TAGGED)
    places = "places: {tags: [shelf, cooled]}"
    alone = cells_of(farm_of(tmp_path, lines=[*LINES[:2], places, LINES[3]]))
    assert [(cell.name, cell.kind) for cell in alone] == [("a@b", "rpi4"), ("a@d", "rpi5")]
    both = cells_of(farm_of(tmp_path, lines=[*LINES[:2], "boards: [host, b]", LINES[3], places]))
    assert [(cell.board, cell.searches) for cell in both] == [("host", True), ("b", True), ("d", True)]


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ("{tags: [shelf, coold]}", "no board has the tag 'coold': did you mean 'cooled'"),
        ("{tags: [lone, cooled]}", "no board has all of the tags cooled, lone"),
        ("{tags: []}", "at least 1"),
        ("{tag: [shelf]}", "did you mean 'tags'|'places.tag"),
        ("{tags: [-x]}", "tags"),
    ],
)
def test_tags_that_choose_no_board_are_refused_with_their_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, places: str, said: str
) -> None:
    write_boards(tmp_path, monkeypatch, TAGGED)
    with pytest.raises(ConfigError, match=f"farm.yaml, line 3: .*({said})"):
        cells_of(farm_of(tmp_path, lines=[*LINES[:2], f"places: {places}", LINES[3]]))


def test_a_farm_needs_boards_or_places_and_a_board_has_each_tag_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="neither 'boards' nor 'places' names a board"):
        farm_of(tmp_path, lines=[*LINES[:2], LINES[3]])
    write_boards(tmp_path, monkeypatch, "boards:\n  b: {target: rpi4, ssh: pi@b, tags: [x, x]}\n")
    with pytest.raises(ConfigError, match=r"boards.yaml, line 2: .*a tag twice"):
        cells_of(farm_of(tmp_path, lines=[*LINES[:2], "places: {tags: [x]}", LINES[3]]))


def test_targets_that_differ_in_their_names_alone_are_one_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    text = (targets_dir() / "qemu-aarch64.yaml").read_text()
    (tmp_path / "config" / "edgetune" / "targets").mkdir(parents=True)
    for name, cache in (("b", 524288), ("c", 524288), ("d", 262144)):
        path = tmp_path / "config" / "edgetune" / "targets" / f"{name}.yaml"
        path.write_text(text.replace("name: qemu-aarch64", f"name: {name}").replace("524288", str(cache)))
    cells = cells_of(farm_of(tmp_path, lines=[*LINES[:2], "boards: [b, c, d]", LINES[3]]))
    assert [(cell.board, cell.kind, cell.searches) for cell in cells] == [
        ("b", "b", True),
        ("c", "b", False),
        ("d", "d", True),
    ]


def test_other_settings_are_another_digest_but_the_same_cell(tmp_path: Path) -> None:
    (before,) = cells_of(farm_of(tmp_path))
    entry = ["models:", "  a: {file: a.onnx, threads: 2}", *LINES[2:]]
    (after,) = cells_of(farm_of(tmp_path, lines=entry))
    assert before.name == after.name
    assert before.settings != after.settings


def test_a_night_bears_the_date_on_which_its_window_begins(tmp_path: Path) -> None:
    farm = farm_of(tmp_path, "window: 22:00-06:00", "timezone: Europe/Berlin").content
    before_midnight = window_at(farm, datetime(2026, 7, 1, 20, 0, tzinfo=UTC))
    after_midnight = window_at(farm, datetime(2026, 7, 2, 3, 59, tzinfo=UTC))
    assert before_midnight == after_midnight
    assert before_midnight is not None
    assert before_midnight.date == date(2026, 7, 1)
    assert window_at(farm, datetime(2026, 7, 2, 4, 0, tzinfo=UTC)) is None
    assert local_date(farm, datetime(2026, 7, 1, 23, 0, tzinfo=UTC)) == date(2026, 7, 2)


@pytest.mark.parametrize(
    ("window", "day", "begins", "ends"),
    [
        # Clocks go from 02:00 CET to 03:00 CEST on 29 March 2026, and from 03:00 CEST to 02:00 CET on 25 October.
        ("22:00-06:00", date(2026, 3, 28), (28, 21, 0), (29, 4, 0)),
        ("22:00-06:00", date(2026, 10, 24), (24, 20, 0), (25, 5, 0)),
        ("02:30-06:00", date(2026, 3, 29), (29, 1, 30), (29, 4, 0)),
        ("22:00-02:30", date(2026, 3, 28), (28, 21, 0), (29, 1, 30)),
        ("02:30-06:00", date(2026, 10, 25), (25, 0, 30), (25, 5, 0)),
        ("22:00-02:30", date(2026, 10, 24), (24, 20, 0), (25, 1, 30)),
    ],
)
def test_windows_on_days_when_clocks_change(
    tmp_path: Path, window: str, day: date, begins: tuple[int, int, int], ends: tuple[int, int, int]
) -> None:
    farm = farm_of(tmp_path, f"window: {window}", "timezone: Europe/Berlin").content
    found = window_of(farm, day)
    assert found is not None
    assert (found.begins.day, found.begins.hour, found.begins.minute) == begins
    assert (found.ends.day, found.ends.hour, found.ends.minute) == ends


def test_the_schemas_are_those_of_the_code() -> None:
    folder = Path(__file__).parents[2] / "schemas"
    assert {name: (folder / name).read_text(encoding="utf-8") for name in schemas()} == schemas()


@pytest.mark.parametrize("value", ["22:00", "[22:00, 6:00]"])
def test_a_window_of_one_time_is_told_that_it_is_two(tmp_path: Path, value: str) -> None:
    (tmp_path / "m.onnx").write_bytes(b"")
    text = f"models: {{m: m.onnx}}\nboards: [host]\nbudget: {{trials: 1}}\nwindow: {value}\n"
    (tmp_path / "farm.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"line 4: .* a window is two of them, such as 22:00-06:00") as fault:
        load_farm(tmp_path / "farm.yaml")
    assert "base of 60" not in fault.value.message


@pytest.mark.parametrize(
    ("timezone", "shown"),
    [
        ("Europe/Berlin", "2026-07-01 00:00:03 CEST"),
        ("America/New_York", "2026-06-30 18:00:03 EDT"),
        ("UTC", "2026-06-30 22:00:03 UTC"),
    ],
)
def test_people_read_times_in_the_farms_zone_without_microseconds(timezone: str, shown: str) -> None:
    assert clock_time("2026-06-30T22:00:03.999999Z", timezone) == shown
    assert clock_time(datetime.fromisoformat("2026-06-30T22:00:03+00:00"), timezone) == shown
