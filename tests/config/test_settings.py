"""Precedence of settings, and the place that each value is said to come from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.config.settings import CommandLineFlags, Settings, resolve_db
from edgetune.errors import ConfigError, ModelError, UnknownBoard, UsageError
from edgetune.package.ident import package_prefix
from edgetune.pipeline.boards import resolve_settings
from edgetune.pipeline.model_formats import require_model

NO_VARIABLES: Mapping[str, str] = {}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    (work / "net-1.onnx").write_bytes(b"x")
    return work


def write_project(folder: Path, text: str) -> None:
    (folder / "edgetune.yaml").write_text(f"model: net-1.onnx\n{text}", encoding="utf-8")


def write_user(folder: Path, text: str) -> None:
    path = folder.parent / "xdg" / "edgetune" / "config.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def write_board(folder: Path, defaults: str) -> None:
    path = folder.parent / "xdg" / "edgetune" / "targets" / "desk.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"name: desk\ndescription: d\ndetect: true\ndefaults:\n{defaults}", encoding="utf-8")


def test_each_place_wins_over_the_next(folder: Path) -> None:
    def seed(flags: CommandLineFlags, variables: Mapping[str, str]) -> tuple[int, str]:
        settings = resolve_settings(flags, variables, folder)
        return settings.seed, settings.origins["seed"]

    bare = CommandLineFlags(model=Path("net-1.onnx"), board="desk")
    write_board(folder, "  threads: 2\n")
    assert seed(bare, NO_VARIABLES) == (0, "default")
    write_board(folder, "  seed: 1\n")
    assert seed(bare, NO_VARIABLES) == (1, "board desk")
    write_user(folder, "seed: 2\n")
    value, origin = seed(bare, NO_VARIABLES)
    assert (value, origin.endswith("config.yaml, line 1")) == (2, True)
    write_project(folder, "seed: 3\n")
    value, origin = seed(bare, NO_VARIABLES)
    assert (value, origin.endswith("edgetune.yaml, line 2")) == (3, True)
    assert seed(bare, {"EDGETUNE_SEED": "4"}) == (4, "environment EDGETUNE_SEED")
    flags = CommandLineFlags(model=bare.model, board="desk", seed=5)
    assert seed(flags, {"EDGETUNE_SEED": "4"}) == (5, "flag --seed")


def test_a_budget_of_trials_replaces_a_budget_of_time(folder: Path) -> None:
    write_project(folder, "boards: [host]\nbudget:\n  time: 1h30m\n")
    by_file = resolve_settings(CommandLineFlags(), NO_VARIABLES, folder)
    assert (by_file.budget_trials, by_file.budget_seconds) == (None, 5400.0)
    by_flag = resolve_settings(CommandLineFlags(trials=7), NO_VARIABLES, folder)
    assert (by_flag.budget_trials, by_flag.budget_seconds) == (7, None)
    by_variable = resolve_settings(CommandLineFlags(), {"EDGETUNE_TRIALS": "0"}, folder)
    assert (by_variable.budget_trials, by_variable.budget_seconds) == (0, None)


def test_defaults_are_complete(folder: Path) -> None:
    settings = resolve_settings(CommandLineFlags(model=Path("net-1.onnx"), board="host"), NO_VARIABLES, folder)
    assert settings.name == "net_1"
    assert settings.board == "host"
    assert (settings.budget_trials, settings.budget_seconds) == (None, 1800.0)
    assert settings.out == folder / "build" / "net_1-host"
    assert settings.db == folder / ".edgetune" / "records.db"
    assert (settings.ram_limit, settings.flash_limit, settings.threads) == (None, None, 1)
    stated_by_no_source = {
        "target",
        "addresses",
        "origins",
        "budget_trials",
        "budget_seconds",
        "branch",
        "ram_is_stated",
    }
    missing = set(Settings.__dataclass_fields__) - stated_by_no_source
    renamed = {"ram_limit": "ram", "flash_limit": "flash"}
    assert {renamed.get(key, key) for key in missing} <= settings.origins.keys()


def test_a_model_given_as_flag_leaves_name_and_shapes_of_the_project_alone(folder: Path) -> None:
    (folder / "other.onnx").write_bytes(b"x")
    write_project(folder, "name: kws\nboards: [host]\nshapes:\n  x: [1, 2]\ndims:\n  t: 7\nstate: {h: g}\n")
    own = resolve_settings(CommandLineFlags(), NO_VARIABLES, folder)
    assert (own.name, own.shapes, own.dims, own.states) == ("kws", {"x": (1, 2)}, {"t": 7}, {"h": "g"})
    other = resolve_settings(CommandLineFlags(model=Path("other.onnx")), NO_VARIABLES, folder)
    assert (other.name, other.shapes, other.dims, other.states) == ("other", {}, {}, {})
    flags = CommandLineFlags(model=Path("net-1.onnx"), shapes={"y": (3,)}, dims={"u": 2}, states={"i": "j"})
    same = resolve_settings(flags, NO_VARIABLES, folder)
    assert (same.name, same.shapes, same.dims) == ("kws", {"x": (1, 2), "y": (3,)}, {"t": 7, "u": 2})
    assert same.states == {"h": "g", "i": "j"}


def test_limits_and_paths(folder: Path) -> None:
    write_project(folder, "boards: [host]\nmemory:\n  ram: 64KiB\ndb: here.db\n")
    settings = resolve_settings(CommandLineFlags(out=Path("o")), {"EDGETUNE_FLASH": "1MB"}, folder)
    assert (settings.ram_limit, settings.flash_limit) == (65536, 1_000_000)
    assert (settings.db, settings.out) == (folder / "here.db", folder / "o")
    assert resolve_db(None, NO_VARIABLES, folder) == folder / "here.db"
    assert resolve_db(Path("f.db"), {"EDGETUNE_DB": "e.db"}, folder) == folder / "f.db"
    assert resolve_db(None, {"EDGETUNE_DB": "e.db"}, folder) == folder / "e.db"


@pytest.mark.parametrize("stated", ["off", "f2", "f4"])
def test_how_exact_convolutions_must_be(folder: Path, stated: str) -> None:
    assert (
        resolve_settings(CommandLineFlags(model=Path("net-1.onnx"), board="host"), NO_VARIABLES, folder).winograd
        == "f4"
    )
    write_project(folder, f"boards: [rpi4]\naccuracy: {{winograd: {stated}}}\n")
    settings = resolve_settings(CommandLineFlags(), NO_VARIABLES, folder)
    assert settings.winograd == stated
    assert settings.origins["winograd"].endswith("edgetune.yaml, line 3")
    write_project(folder, "boards: [rpi4]\naccuracy: {winograd: f8}\n")
    with pytest.raises(ConfigError, match=r"line 3: 'accuracy.winograd' must be 'off', 'f2' or 'f4'"):
        resolve_settings(CommandLineFlags(), NO_VARIABLES, folder)


def test_boards_and_how_far_they_are_trusted(folder: Path) -> None:
    boards = folder.parent / "xdg" / "edgetune" / "boards.yaml"
    boards.parent.mkdir(parents=True)
    boards.write_text("boards:\n  a: {target: rpi4, ssh: a}\n  b: {target: rpi4, ssh: b, rpc: tvm}\n", encoding="utf-8")
    one = resolve_settings(CommandLineFlags(model=Path("net-1.onnx"), board="a"), NO_VARIABLES, folder)
    assert (one.board, one.target.name, one.out.name) == ("a", "rpi4", "net_1-rpi4")
    assert (one.rpc, one.min_trust, one.origins["rpc"], one.origins["min_trust"]) == (None, "D", "default", "default")
    write_project(folder, "boards: [rpi4]\nrpc: tvm\nmin_trust: B\n")
    both = resolve_settings(CommandLineFlags(), NO_VARIABLES, folder)
    assert (both.board, [address.rpc for address in both.addresses]) == ("rpi4", [None, "tvm"])
    assert (both.rpc, both.min_trust) == ("tvm", "B")
    assert both.origins["min_trust"].endswith("edgetune.yaml, line 4")
    by_variable = resolve_settings(
        CommandLineFlags(rpc="agent"), {"EDGETUNE_MIN_TRUST": "A", "EDGETUNE_RPC": "tvm"}, folder
    )
    assert (by_variable.rpc, by_variable.min_trust) == ("agent", "A")
    write_project(folder, "boards: [rpi4]\nmin_trust: F\n")
    with pytest.raises(ConfigError, match="line 3: 'min_trust' must be 'A', 'B', 'C' or 'D', not 'F'"):
        resolve_settings(CommandLineFlags(), NO_VARIABLES, folder)


def test_how_images_are_exchanged(folder: Path) -> None:
    flags = CommandLineFlags(model=Path("net-1.onnx"), board="host")
    plain = resolve_settings(flags, NO_VARIABLES, folder)
    assert (plain.layout, plain.layouts, plain.origins["layout"]) == ("model", {}, "default")
    write_project(folder, "boards: [rpi4]\nlayout: channels_last\nlayouts: {a: model, b: channels_last}\n")
    stated = resolve_settings(CommandLineFlags(), NO_VARIABLES, folder)
    assert (stated.layout, stated.layouts) == ("channels_last", {"a": "model", "b": "channels_last"})
    assert stated.origins["layout"].endswith("edgetune.yaml, line 3")
    assert resolve_settings(CommandLineFlags(), {"EDGETUNE_LAYOUT": "model"}, folder).layout == "model"
    merged = resolve_settings(CommandLineFlags(layout="model", layouts={"b": "model"}), NO_VARIABLES, folder)
    assert (merged.layout, merged.layouts) == ("model", {"a": "model", "b": "model"})
    (folder / "other.onnx").write_bytes(b"x")
    other = resolve_settings(CommandLineFlags(model=Path("other.onnx")), NO_VARIABLES, folder)
    assert (other.layout, other.layouts) == ("channels_last", {})  # names belong to the model of the file
    write_project(folder, "boards: [rpi4]\nlayouts: {a: nhwc}\n")
    with pytest.raises(ConfigError, match=r"line 3: 'layouts\.a' must be 'model' or 'channels_last', not 'nhwc'"):
        resolve_settings(CommandLineFlags(), NO_VARIABLES, folder)


def test_where_inputs_and_outputs_lie(folder: Path) -> None:
    flags = CommandLineFlags(model=Path("net-1.onnx"), board="host")
    plain = resolve_settings(flags, NO_VARIABLES, folder)
    assert (plain.io, plain.origins["io"]) == ("caller", "default")
    write_project(folder, "boards: [rpi4]\nio: arena\n")
    stated = resolve_settings(CommandLineFlags(), NO_VARIABLES, folder)
    assert stated.io == "arena"
    assert stated.origins["io"].endswith("edgetune.yaml, line 3")
    assert resolve_settings(CommandLineFlags(), {"EDGETUNE_IO": "caller"}, folder).io == "caller"
    assert resolve_settings(CommandLineFlags(io="arena"), {"EDGETUNE_IO": "caller"}, folder).io == "arena"
    with pytest.raises(ConfigError, match="EDGETUNE_IO must be 'caller' or 'arena', not 'heap'"):
        resolve_settings(CommandLineFlags(), {"EDGETUNE_IO": "heap"}, folder)


def test_the_version_of_a_package(folder: Path) -> None:
    plain = resolve_settings(CommandLineFlags(model=Path("net-1.onnx"), board="host"), NO_VARIABLES, folder)
    assert (plain.package_version, plain.origins["package_version"]) == ((1, 0, 0), "default")
    write_project(folder, "boards: [rpi4]\npackage_version: 2.10.3\n")
    stated = resolve_settings(CommandLineFlags(), NO_VARIABLES, folder)
    assert stated.package_version == (2, 10, 3)
    assert stated.origins["package_version"].endswith("edgetune.yaml, line 3")
    (folder / "other.onnx").write_bytes(b"x")
    other = resolve_settings(CommandLineFlags(model=Path("other.onnx")), NO_VARIABLES, folder)
    assert other.package_version == (1, 0, 0)  # the version belongs to the model of the file
    flagged = resolve_settings(CommandLineFlags(package_version="0.1.0"), NO_VARIABLES, folder)
    assert (flagged.package_version, flagged.origins["package_version"]) == ((0, 1, 0), "flag --package-version")
    for text in ("1.0", "'1.0'", "01.0.0", "1.0.0-rc1", "1.0.0000000"):
        write_project(folder, f"boards: [rpi4]\npackage_version: {text}\n")
        with pytest.raises(ConfigError, match=r"line 3: 'package_version' must be (three numbers such as|text)"):
            resolve_settings(CommandLineFlags(), NO_VARIABLES, folder)


def test_the_name_of_a_package(folder: Path) -> None:
    plain = resolve_settings(CommandLineFlags(model=Path("net-1.onnx"), board="host"), NO_VARIABLES, folder)
    assert (plain.name, plain.origins["name"]) == ("net_1", "the model's file name")
    write_project(folder, "boards: [rpi4]\nname: kws\n")
    stated = resolve_settings(CommandLineFlags(), NO_VARIABLES, folder)
    assert (stated.name, stated.out) == ("kws", folder.resolve() / "build/kws-rpi4")
    flagged = resolve_settings(CommandLineFlags(name="wake"), NO_VARIABLES, folder)
    assert (flagged.name, flagged.origins["name"]) == ("wake", "flag --name")
    assert flagged.out == folder.resolve() / "build/wake-rpi4"
    (folder / "other.onnx").write_bytes(b"x")
    other = resolve_settings(CommandLineFlags(model=Path("other.onnx"), name="wake"), NO_VARIABLES, folder)
    assert other.name == "wake"  # a flag is for any model, the name in the file for that of the file
    write_project(folder, f"boards: [rpi4]\nname: {'n' * 33}\n")
    with pytest.raises(
        ConfigError, match="line 3: 'name' must have 32 characters at most, as the prefix of every C sym"
    ):
        resolve_settings(CommandLineFlags(), NO_VARIABLES, folder)


def _complaint(name: str) -> str:
    caught: list[str] = []
    try:
        CommandLineFlags(name=name)
    except UsageError as refusal:
        caught.append(refusal.message)
    return "".join(caught)


HOSTILE = st.sampled_from(["../../up", "a b", "main", "string", "_x", "x__y", "2net", "", "n" * 33])


@given(st.one_of(st.text(max_size=40), HOSTILE, st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,40}", fullmatch=True)))
def test_a_name_is_the_prefix_as_it_stands_or_refused_with_one_that_would_do(name: str) -> None:
    complaint = _complaint(name)
    if not complaint:
        assert package_prefix(name) == name.lower()
    elif "32 characters at most" not in complaint:
        offered = re.search(r": '(\w+)' would do$", complaint)
        assert offered is not None
        assert _complaint(offered[1]) == ""


def test_which_build_systems_get_files(folder: Path) -> None:
    flags = CommandLineFlags(model=Path("net-1.onnx"), board="host")
    plain = resolve_settings(flags, NO_VARIABLES, folder)
    assert (plain.flavours, plain.origins["flavours"]) == (("make", "cmake"), "default")
    write_project(folder, "boards: [rpi4]\nflavours: [zephyr]\n")
    stated = resolve_settings(CommandLineFlags(), NO_VARIABLES, folder)
    assert stated.flavours == ("zephyr",)
    assert stated.origins["flavours"].endswith("edgetune.yaml, line 3")
    assert resolve_settings(CommandLineFlags(), {"EDGETUNE_FLAVOURS": "a, b"}, folder).flavours == ("a", "b")
    assert resolve_settings(CommandLineFlags(flavours=("c",)), NO_VARIABLES, folder).flavours == ("c",)
    write_project(folder, "boards: [rpi4]\nflavours: []\n")
    assert resolve_settings(CommandLineFlags(), NO_VARIABLES, folder).flavours == ()


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        (
            {"EDGETUNE_THREADS": "257"},
            "EDGETUNE_THREADS must be a whole number of at least 1 and at most 256, not '257'",
        ),
        ({"EDGETUNE_SEED": "x"}, "EDGETUNE_SEED must be a whole number of at least 0, not 'x'"),
        ({"EDGETUNE_TIME": "x"}, "EDGETUNE_TIME must be a time such as 30m"),
        ({"EDGETUNE_TRAILS": "3"}, "EDGETUNE_TRAILS is unknown: did you mean EDGETUNE_TRIALS?"),
        ({"EDGETUNE_TRIALS": "3", "EDGETUNE_TIME": "3m"}, "exclude each other"),
        ({"EDGETUNE_MIN_TRUST": "E"}, "EDGETUNE_MIN_TRUST must be 'A' or 'B' or 'C' or 'D', not 'E'"),
        ({"EDGETUNE_LAYOUT": "nhwc"}, "EDGETUNE_LAYOUT must be 'model' or 'channels_last', not 'nhwc'"),
        ({"EDGETUNE_FLAVOURS": "make,"}, "EDGETUNE_FLAVOURS must be names with commas between them, not 'make,'"),
        ({"EDGETUNE_OBJECTIVE": "speed"}, "EDGETUNE_OBJECTIVE must be 'latency'"),
        (
            {"EDGETUNE_RPC": "tmv"},
            "environment EDGETUNE_RPC: 'rpc' must be the name of a transport to an address, not 'tmv': did you mean",
        ),
    ],
)
def test_wrong_variables(folder: Path, variables: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        resolve_settings(CommandLineFlags(model=Path("net-1.onnx"), board="host"), variables, folder)


def test_what_is_missing_is_said(folder: Path) -> None:
    with pytest.raises(UsageError, match="no board is given"):
        resolve_settings(CommandLineFlags(model=Path("net-1.onnx")), NO_VARIABLES, folder)
    with pytest.raises(UsageError, match="no model is given"):
        resolve_settings(CommandLineFlags(board="host"), NO_VARIABLES, folder)
    with pytest.raises(ModelError, match=r"does not exist: .* \(flag MODEL\)"):
        resolve_settings(
            CommandLineFlags(model=Path("gone.onnx"), board="rip4"),
            NO_VARIABLES,
            folder,
            lambda path, _, origin: require_model(path, origin),
        )
    with pytest.raises(UnknownBoard, match="did you mean 'rpi4'"):
        resolve_settings(CommandLineFlags(model=Path("net-1.onnx"), board="rip4"), NO_VARIABLES, folder)
    write_project(folder, "boards: [rpi3, rpi4]\n")
    with pytest.raises(UsageError, match="one of rpi3, rpi4"):
        resolve_settings(CommandLineFlags(), NO_VARIABLES, folder)
