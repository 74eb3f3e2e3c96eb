"""Memory regions of a board without operating system: a small fast one beside a large one, under the emulator."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from edgetune.errors import ConfigError, MemoryLimitExceeded
from edgetune.resources import targets_dir
from edgetune.target.target import load_target
from tests.distribution_sample import edgetune

BOARD = "mps2-an386"
MODEL = Path(__file__).parents[3] / "shared" / "models" / "mlperf_tiny" / "kws_int8.tflite"
DTCM, SRAM = 0x20000000, 0x20002000
REGIONS = [
    {"name": "dtcm", "origin": DTCM, "bytes": "8KiB"},
    {"name": "sram", "origin": SRAM, "bytes": "1MiB", "workspace": "512KiB"},
]

with_model = pytest.mark.skipif(not MODEL.is_file(), reason=f"{MODEL} is not there")


def board(folder: Path, **changed: Any) -> Path:
    """A file of the emulated board whose RAM is two regions; `changed` are keys of its memory map."""
    described = yaml.safe_load((targets_dir() / f"{BOARD}.yaml").read_text()) | {"name": "regions"}
    del described["defaults"]
    space = {"flash": described["memory_map"]["flash"], "ram": "sram", "regions": REGIONS} | changed
    described["memory_map"] = {key: value for key, value in space.items() if value is not None}
    (folder / "regions.yaml").write_text(yaml.safe_dump(described, sort_keys=False))
    return folder / "regions.yaml"


def built(folder: Path, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    return edgetune(["build", str(MODEL), "--board", name, "--json", *words], cwd=folder)


def addresses(image: Path) -> dict[str, int]:
    done = subprocess.run(["arm-none-eabi-nm", str(image)], capture_output=True, text=True, check=True)
    return {name: int(address, 16) for address, _, name in re.findall(r"^(\w+) (\w) (\w+)$", done.stdout, re.MULTILINE)}


def cases(folder: Path) -> list[str]:
    done = subprocess.run(["make", "-s", "selftest"], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "PASS"
    return [line for line in done.stdout.splitlines() if line.startswith("case ")]


@with_model
@pytest.mark.long
@pytest.mark.parametrize("io", ["caller", "arena"])
def test_both_workspaces_lie_in_their_regions_and_the_outputs_are_the_same_bits(tmp_path: Path, io: str) -> None:
    board(tmp_path)
    for name, out in (("regions.yaml", "p"), (BOARD, "one")):
        done = built(tmp_path, name, "--io", io, "-o", out)
        assert done.returncode == 0, done.stderr
        assert "not_tested" not in json.loads(done.stdout)
    memory = json.loads((tmp_path / "p/MANIFEST.json").read_text())["memory"]
    fast, slow = memory["workspaces"]
    assert (fast["region"], slow["region"]) == ("dtcm", "sram")
    assert 4096 < fast["bytes"] <= 8192 - 128
    assert fast["bytes"] + slow["bytes"] == memory["workspace_bytes"] == memory["arena_bytes"]
    assert cases(tmp_path / "p") == cases(tmp_path / "one")
    goals = [f"build/kws_int8_{program}" for program in ("selftest", "bench", "example")]
    subprocess.run(["make", "-s", *goals, "WARNINGS=-Wall -Wextra -Werror"], cwd=tmp_path / "p", check=True)
    for goal, before in zip(goals, ("watched_", "", ""), strict=True):
        found = addresses(tmp_path / "p" / goal)
        assert DTCM <= found[f"{before}workspace_dtcm"] < DTCM + 64
        assert SRAM <= found[f"{before}workspace_sram"] < SRAM + (1 << 20)
        assert found["kws_int8__bss_start"] >= SRAM
    done = edgetune(["verify", "p", "--model", str(MODEL), "--json"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["fresh_cases"] == 2
    report = (tmp_path / "p/REPORT.md").read_text()
    assert re.search(rf"^\| dtcm \| 0x20000000 \| {fast['bytes']:,} \| 8,064 \| ", report, re.MULTILINE)
    assert re.search(rf"^\| sram \| 0x20002000 \| {slow['bytes']:,} \| 524,288 \| ", report, re.MULTILINE)


@with_model
@pytest.mark.long
def test_what_fits_the_fast_region_is_one_workspace_there(tmp_path: Path) -> None:
    board(tmp_path, regions=[REGIONS[0] | {"bytes": "64KiB"}, REGIONS[1] | {"origin": 0x20010000}])
    done = built(tmp_path, "regions.yaml", "-o", "p")
    assert done.returncode == 0, done.stderr
    assert "not_tested" not in json.loads(done.stdout)
    (only,) = json.loads((tmp_path / "p/MANIFEST.json").read_text())["memory"]["workspaces"]
    assert (only["region"], only["field"]) == ("dtcm", "")
    assert cases(tmp_path / "p")
    assert addresses(tmp_path / "p/build/kws_int8_selftest")["watched_workspace"] == DTCM


@with_model
@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        (
            ("4KiB", "6KiB"),
            r"layer \d (.*) 1x25x5x64 of kws_int8 takes 8000 bytes, and the largest region of the board, sram",
        ),
        (
            ("8128", "8000"),
            r"kws_int8 does not fit the regions dtcm with 8000 bytes, sram with 7872 bytes: \d+ bytes find",
        ),
    ],
)
def test_a_model_that_no_region_holds_is_refused(tmp_path: Path, sizes: tuple[str, str], sentence: str) -> None:
    regions = [REGIONS[0] | {"bytes": sizes[0]}, {"name": "sram", "origin": SRAM, "bytes": sizes[1]}]
    board(tmp_path, regions=regions)
    done = built(tmp_path, "regions.yaml", "-o", "p")
    assert done.returncode == MemoryLimitExceeded.exit_code
    (error,) = [line for line in done.stderr.splitlines() if "MemoryLimitExceeded" in line]
    assert re.search(sentence, error)
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"ram": None}, r"key 'memory_map\.ram' is missing: add it"),
        ({"ram": "axi"}, r"'memory_map' has 'ram' in region 'axi', which 'regions' does not have"),
        ({"ram": "sram", "regions": None}, r"'memory_map' has 'ram' in region 'sram', which 'regions' does not have"),
        ({"regions": [REGIONS[1], REGIONS[1] | {"origin": 0}]}, r"two regions of the name 'sram': give each its own"),
        ({"regions": [REGIONS[0] | {"bytes": "9KiB"}, REGIONS[1]]}, r"regions 'dtcm' and 'sram' that share addresses"),
        ({"regions": [REGIONS[0] | {"origin": 4096}, REGIONS[1]]}, r"regions 'dtcm' and 'flash' that share addresses"),
        (
            {"regions": [REGIONS[0] | {"workspace": "9KiB"}, REGIONS[1]]},
            r"'workspace' of 9216 bytes, more than its 8192",
        ),
        (
            {"regions": [REGIONS[0] | {"workspace": "8KiB"}, REGIONS[1]]},
            r"'dtcm' with room for 8064 bytes beside the 128",
        ),
        ({"regions": [REGIONS[0] | {"bytes": 128}, REGIONS[1]]}, r"'dtcm' with room for 0 bytes beside the 128"),
        ({"regions": [REGIONS[0] | {"name": "ram"}, REGIONS[1]]}, r"a region of the name 'ram' that is not 'ram'"),
        (
            {"regions": [REGIONS[0] | {"name": "D-TCM"}, REGIONS[1]]},
            r"'memory_map\.regions\.0\.name' must be text of the form",
        ),
        ({"regions": [REGIONS[0] | {"size": 1}, REGIONS[1]]}, r"unknown key 'memory_map\.regions\.0\.size'"),
        ({"regions": [{"name": "dtcm", "bytes": 64}, REGIONS[1]]}, r"key 'memory_map\.regions\.0\.origin' is missing"),
    ],
)
def test_a_wrong_map_is_refused(tmp_path: Path, changed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        load_target(str(board(tmp_path, **changed)))


def test_ram_of_its_own_is_the_last_region(tmp_path: Path) -> None:
    ram = {"origin": SRAM, "bytes": "1MiB"}
    target = load_target(str(board(tmp_path, ram=ram, regions=REGIONS[:1])))
    assert target.memory_map is not None
    assert [one.name for one in target.memory_map.workspaces] == ["dtcm", "ram"]
    assert target.memory_sizes["ram"] == 8192 - 128 + (1 << 20) - 128


def test_a_workspace_begins_at_a_multiple_of_its_alignment(tmp_path: Path) -> None:
    moved = REGIONS[0] | {"origin": DTCM + 16, "bytes": 8176}
    target = load_target(str(board(tmp_path, regions=[moved, REGIONS[1]])))
    assert target.memory_map is not None
    assert [one.workspace_bytes for one in target.memory_map.workspaces] == [8176 - 48 - 128, 512 << 10]


@with_model
def test_no_name_of_a_region_is_a_word_of_the_linker(tmp_path: Path) -> None:
    board(tmp_path, regions=[REGIONS[0] | {"name": "length"}, REGIONS[1]])
    done = built(tmp_path, "regions.yaml", "-o", "p")
    assert done.returncode == 0, done.stderr
    assert "not_tested" not in json.loads(done.stdout)


def test_a_map_without_regions_is_stated_as_before() -> None:
    """A package says it in its manifest."""
    space = load_target(BOARD).memory_map
    assert space is not None
    pieces = {"flash": {"origin": 0, "bytes": 1 << 22}, "ram": {"origin": DTCM, "bytes": 1 << 22}}
    assert space.model_dump(mode="json") == pieces
