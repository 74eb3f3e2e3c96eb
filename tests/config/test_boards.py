"""``boards.yaml``: what names mean, what a wrong file says, and lines that are added without loss."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from edgetune.backends.c_linux import BACKEND
from edgetune.boards.transports.agent import AGENT
from edgetune.boards.transports.tvm import TVM
from edgetune.cli.main import run
from edgetune.config.boards_file import BoardAddress, boards_path, require_measurable
from edgetune.config.boards_remove import remove_board
from edgetune.errors import BoardUnavailable, ConfigError, UnknownBoard, UsageError
from edgetune.pipeline.boards import accesses, add_board, list_addresses, load_board
from edgetune.target.identity import target_fingerprint
from edgetune.target.target import load_target

SHELF = """\
# the shelf
boards:
  shelf-2: {target: rpi4, ssh: shelf-2}   # the one with the fan
  shelf-1:
    target: rpi4
    ssh: pi@shelf-1.local:2222
    cores: [3]
    power: [./power.sh, shelf-1]
    identity: keys/shelf
  old: {target: generic-armv7, ssh: "root@[fe80::1%eth0]"}
"""


@pytest.fixture
def boards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = tmp_path / "edgetune" / "boards.yaml"
    path.parent.mkdir()
    path.write_text(SHELF, encoding="utf-8")
    assert boards_path() == path
    return path


def test_a_name_is_a_board_or_all_boards_of_a_target(boards: Path) -> None:
    one = load_board("shelf-1")
    assert (one.target.name, [address.name for address in one.addresses]) == ("rpi4", ["shelf-1"])
    assert one.addresses[0].cores == (3,)
    assert one.addresses[0].power == (str(boards.parent / "power.sh"), "shelf-1")
    assert one.addresses[0].identity == str(boards.parent / "keys" / "shelf")
    assert [address.name for address in load_board("rpi4").addresses] == ["shelf-1", "shelf-2"]
    assert [address.name for address in list_addresses()] == ["old", "shelf-1", "shelf-2"]
    for name in ("host", "rpi5", "qemu-aarch64", "qemu-rpi4"):
        assert load_board(name).addresses == ()


@pytest.mark.usefixtures("boards")
def test_an_address_makes_any_target_measurable() -> None:
    assert load_target("generic-armv7").reach == "none"
    for name in ("old", "generic-armv7"):
        found = load_board(name)
        assert (found.target.reach, len(found.addresses)) == ("ssh", 1)
        require_measurable(found.target, found.addresses)
    for name in ("host", "qemu-aarch64", "qemu-armv7", "qemu-rpi4"):
        require_measurable(load_board(name).target)
    for name in ("rpi5", "generic-aarch64"):
        sentence = f"edgetune boards add NAME --target {name} --ssh USER@HOST"
        with pytest.raises(BoardUnavailable, match=sentence):
            require_measurable(load_board(name).target, load_board(name).addresses)


@pytest.mark.usefixtures("boards")
def test_unknown_names_get_the_nearest_of_both_kinds() -> None:
    for name, near in {"rpi44": "rpi4", "shelf_2": "shelf-2", "qemu-rpi": "qemu-rpi4"}.items():
        with pytest.raises(UnknownBoard, match=f"unknown board '{name}': did you mean '{near}'"):
            load_board(name)
    with pytest.raises(UnknownBoard, match="there is no target file gone"):
        load_board("gone.yaml")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: {target: rpi44, ssh: x}", "line 2: 'boards.a.target' is unknown: did you mean 'rpi4'?"),
        (
            "a: {target: host, ssh: x}",
            "line 2: 'boards.a.target' is 'host', which needs no address: it is this machine",
        ),
        ("a: {target: qemu-rpi4, ssh: x}", "which needs no address: its machine is started here"),
        ("a:\n    target: rpi4\n    shh: x", "line 4: unknown key 'boards.a.shh': did you mean 'ssh'?"),
        ("a: {target: rpi4}", "line 2: key 'boards.a.ssh' is missing: add it"),
        ("-a: {target: rpi4, ssh: x}", "line 2: 'boards.-a' must be a name of letters, digits"),
        ("a: {target: rpi4, ssh: 'pi:secret@h'}", "line 2: 'boards.a.ssh' holds a password"),
        ("a: {target: rpi4, ssh: -oProxyCommand=x}", "must be [user@]host[:port] or a Host of ~/.ssh/config"),
        ("a: {target: rpi4, ssh: 'h:99999'}", "must be [user@]host[:port] or a Host of ~/.ssh/config"),
        ("a: {target: rpi4, ssh: h, cores: [1, 1]}", "'boards.a.cores' names a core twice"),
        ("a: {target: rpi4, ssh: h, folder: tmp}", "'boards.a.folder' must be an absolute path on the board"),
        ("a: {target: rpi4, ssh: h, power: x}", "'boards.a.power' must be a list, not 'x' (text)"),
        (
            "a: {target: rpi4, ssh: h, rpc: tmv}",
            "'boards.a.rpc' must be the name of a transport to an address, not 'tmv': did you mean 'tvm'?",
        ),
        (
            "a: {target: rpi4, ssh: h, rpc: local}",
            "'boards.a.rpc' must be the name of a transport to an address, not 'local'",
        ),
        ("a: {target: rpi4, ssh: h, tracker: h}", "'boards.a.tracker' must be host:port"),
        (
            "a:\n    target: rpi4\n    ssh: h\n    tracker: 'h:9190'",
            "line 5: 'boards.a.tracker' needs rpc tvm: add that",
        ),
        (
            "a: {target: generic-armv7, ssh: h, rpc: tvm}",
            "'boards.a.rpc' is tvm, but edgetune has no TVM server for",
        ),
        ("a: {target: rpi4, ssh: h, rpc: tvm, key: k}", "'boards.a.key' is for boards of a farm: add rpc tvm and the"),
        ("a: {target: rpi4, ssh: h, rpc: tvm, tracker: local, key: k}", "'boards.a.key' is for boards of a farm"),
        ("a: {target: rpi4, ssh: h, priority: 5}", "'boards.a.priority' is for boards that a tracker lends"),
        ("rpi4: {target: rpi4, ssh: h}", "line 2: 'boards.rpi4' has the name of a target: call it rpi4-1"),
        ("a: 3", "line 2: 'boards.a' must be a group of keys"),
        ("1: {target: rpi4, ssh: h}", "line 2: 'boards.1' must be text (quote it)"),
    ],
)
def test_a_wrong_file_names_line_and_key(text: str, sentence: str, boards: Path) -> None:
    boards.write_text(f"boards:\n  {text}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        list_addresses()


def test_a_board_that_names_no_transport_has_that_of_its_backend(boards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boards.write_text("boards:\n  a: {target: rpi4, ssh: h}\n  b: {target: rpi4, ssh: h, rpc: agent}\n")
    assert [(address.name, address.rpc) for address in list_addresses()] == [("a", "agent"), ("b", "agent")]
    monkeypatch.setattr(BACKEND, "transport", "tvm", raising=False)
    assert [(address.name, address.rpc) for address in list_addresses()] == [("a", "tvm"), ("b", "agent")]
    assert [access.transport for access in accesses(load_board("rpi4"))] == [TVM, AGENT]


@pytest.mark.parametrize("name", ["a", "rpi4"])
def test_keys_that_do_nothing_are_refused_by_whatever_name_the_board_is_meant(name: str, boards: Path) -> None:
    boards.write_text("boards:\n  a: {target: rpi4, ssh: h, tracker: local}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"line 2: 'boards\.a\.tracker' needs rpc tvm"):
        load_board(name)


def test_the_secret_is_not_repeated(boards: Path) -> None:
    boards.write_text("boards:\n  a: {target: rpi4, ssh: 'pi:hunter2@h'}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        list_addresses()
    assert "hunter2" not in str(caught.value)
    with pytest.raises(UsageError, match="--ssh holds a password") as refused:
        add_board({"name": "a", "target": "rpi4", "ssh": "pi:hunter2@h"})
    assert "hunter2" not in str(refused.value)


def test_adding_keeps_every_byte(boards: Path) -> None:
    boards.chmod(0o600)
    assert add_board({"name": "new", "target": "rpi5", "ssh": "pi@new", "cores": (2, 3)}) == boards
    assert boards.read_text(encoding="utf-8") == SHELF + "  new: {target: rpi5, ssh: pi@new, cores: [2, 3]}\n"
    assert boards.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in boards.parent.iterdir()] == ["boards.yaml"]
    (added,) = load_board("new").addresses
    assert added == BoardAddress(name="new", target="rpi5", ssh="pi@new", cores=(2, 3))


@pytest.mark.parametrize(
    "text", ["", "# nothing yet", "boards:", "boards:\n", "boards:\n      a: {target: rpi4, ssh: h}", "---\nboards:\n"]
)
def test_adding_to_files_of_any_layout(text: str, boards: Path) -> None:
    boards.write_text(text, encoding="utf-8")
    add_board({"name": "on", "target": "rpi4", "ssh": "h: #1"[:1]})
    assert boards.read_text(encoding="utf-8").startswith(text)
    assert load_board("on").addresses[0].ssh == "h"


@pytest.mark.parametrize("text", ["{boards: {}}\n", "boards: {}\n", "boards: {a: {target: rpi4, ssh: h}}\n"])
def test_what_cannot_be_added_is_said_and_nothing_changes(text: str, boards: Path) -> None:
    boards.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=re.escape("under 'boards:' yourself: b: {target: rpi4, ssh: h}")):
        add_board({"name": "b", "target": "rpi4", "ssh": "h"})
    assert boards.read_text(encoding="utf-8") == text


def test_the_first_board_makes_the_file_and_a_link_stays_one(boards: Path, tmp_path: Path) -> None:
    boards.unlink()
    add_board({"name": "a", "target": "rpi4", "ssh": "h"})
    assert boards.read_text(encoding="utf-8").startswith("# Boards by name")
    real = tmp_path / "dotfiles.yaml"
    boards.rename(real)
    boards.symlink_to(real)
    add_board({"name": "b", "target": "rpi4", "ssh": "h"})
    assert boards.is_symlink()
    assert [address.name for address in list_addresses()] == ["a", "b"]


@pytest.mark.parametrize(
    ("values", "error", "sentence"),
    [
        ({"name": "shelf-2", "target": "rpi4"}, ConfigError, "line 3: board 'shelf-2' exists already"),
        ({"name": "b", "target": "rpi44"}, UnknownBoard, "did you mean 'rpi4'"),
        ({"name": "b", "target": "host"}, UsageError, "--target host needs no address"),
        ({"name": "rpi5", "target": "rpi4"}, UsageError, "rpi5 is the name of a target: call the board rpi5-1"),
        ({"name": "a b", "target": "rpi4"}, UsageError, "NAME must be a name of letters"),
        ({"name": "b", "target": "rpi4", "tracker": "h:9190"}, UsageError, "--tracker needs rpc tvm"),
        ({"name": "b", "target": "rpi4", "rpc": "tvm", "key": "k"}, UsageError, "--key is for boards of a farm"),
        (
            {"name": "b", "target": "generic-armv7", "rpc": "tvm"},
            UsageError,
            "--rpc is tvm, but edgetune has no TVM server for armv7, only for aarch64 and x86_64",
        ),
        ({"name": "b", "target": "rpi4", "identity": "/none"}, UsageError, "--identity /none is not a file"),
        ({"name": "b", "target": "rpi4", "folder": "x"}, UsageError, "--folder must be an absolute path"),
    ],
)
def test_refused_additions(values: dict[str, object], error: type[Exception], sentence: str, boards: Path) -> None:
    with pytest.raises(error, match=re.escape(sentence)):
        add_board({"ssh": "h", **values})
    assert boards.read_text(encoding="utf-8") == SHELF


NAMES = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9_.-]{0,8}\Z").filter(lambda name: not name.endswith((".yaml", ".yml")))
LINES = st.text(min_size=1, max_size=20).filter(lambda text: text.isprintable())


@pytest.mark.long
@given(st.dictionaries(NAMES, LINES, max_size=4))
def test_whatever_was_added_is_read_back(wanted: dict[str, str]) -> None:
    path = boards_path()
    path.unlink(missing_ok=True)
    try:
        for name, reboot in wanted.items():
            add_board({"name": name, "target": "rpi4", "ssh": "h", "reboot": reboot})
        assert {address.name: address.reboot for address in list_addresses()} == wanted
    finally:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize(("name", "lines"), [("shelf-2", [2]), ("shelf-1", [3, 4, 5, 6, 7, 8]), ("old", [9])])
def test_removing_takes_the_lines_of_the_board_alone(name: str, lines: list[int], boards: Path) -> None:
    boards.chmod(0o600)
    assert remove_board(name) == boards
    kept = [line for number, line in enumerate(SHELF.splitlines(keepends=True)) if number not in lines]
    assert boards.read_text(encoding="utf-8") == "".join(kept)
    assert boards.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in boards.parent.iterdir()] == ["boards.yaml"]
    with pytest.raises(UnknownBoard, match="there is no board"):
        remove_board(name)


def test_line_ends_stay_what_they_are(boards: Path) -> None:
    text = SHELF.replace("\n", "\r\n").encode()
    boards.write_bytes(text)
    add_board({"name": "new", "target": "rpi4", "ssh": "h"})
    assert boards.read_bytes() == text + b"  new: {target: rpi4, ssh: h}\r\n"
    remove_board("new")
    assert boards.read_bytes() == text
    boards.write_bytes(b"# mine\r\n")
    add_board({"name": "new", "target": "rpi4", "ssh": "h"})
    assert boards.read_bytes() == b"# mine\r\nboards:\r\n  new: {target: rpi4, ssh: h}\r\n"


def test_comments_before_the_next_board_stay(boards: Path) -> None:
    rest = "  # the fast one\n\n  b: {target: rpi5, ssh: h}\n# end\n"
    boards.write_text(f"boards:\n  # the slow one\n  a:\n    target: rpi4\n    ssh: h\n\n{rest}", encoding="utf-8")
    remove_board("a")
    assert boards.read_text(encoding="utf-8") == f"boards:\n  # the slow one\n\n{rest}"
    remove_board("b")
    assert boards.read_text(encoding="utf-8").endswith("# end\n")
    assert list_addresses() == []
    add_board({"name": "c", "target": "rpi4", "ssh": "h"})
    assert [address.name for address in list_addresses()] == ["c"]


@pytest.mark.parametrize(
    ("text", "name", "error", "sentence"),
    [
        (SHELF, "shelf2", UnknownBoard, "there is no board 'shelf2' to remove: did you mean 'shelf-2'?"),
        (SHELF, "rpi4", UnknownBoard, "there is no board 'rpi4' to remove: valid are old, shelf-1, shelf-2"),
        ("boards:\n", "a", UnknownBoard, "no board has an address yet"),
        ("boards: {a: {target: rpi4, ssh: h}}\n", "a", ConfigError, "line 1: board 'a' shares its lines with others"),
        ("boards:\n  a: &x {target: rpi4, ssh: h}\n  b: *x\n", "a", ConfigError, "or another board refers to it"),
    ],
)
def test_refused_removals(text: str, name: str, error: type[Exception], sentence: str, boards: Path) -> None:
    boards.write_text(text, encoding="utf-8")
    with pytest.raises(error, match=re.escape(sentence)):
        remove_board(name)
    assert boards.read_text(encoding="utf-8") == text


def test_the_verb_asks_nothing_and_tells_what_it_did(boards: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["boards", "remove", "old"]) == 0
    assert capsys.readouterr().out.replace("\n", " ").startswith("removed old from")
    assert run(["boards", "remove", "shelf-1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"board": "shelf-1", "file": str(boards)}
    assert run(["boards", "remove", "shelf-1"]) == UnknownBoard.exit_code
    assert "shelf-2" in capsys.readouterr().err


@pytest.mark.long
@given(st.lists(NAMES, min_size=1, max_size=5, unique=True), st.data())
def test_removing_leaves_the_others(names: list[str], data: st.DataObject) -> None:
    path = boards_path()
    path.unlink(missing_ok=True)
    try:
        for name in names:
            add_board({"name": name, "target": "rpi4", "ssh": "h", "reboot": data.draw(LINES)})
        before = {address.name: address for address in list_addresses()}
        gone = data.draw(st.sampled_from(names))
        remove_board(gone)
        assert {a.name: a for a in list_addresses()} == {n: a for n, a in before.items() if n != gone}
    finally:
        path.unlink(missing_ok=True)


def test_what_emulators_tell_is_kept_apart() -> None:
    assert target_fingerprint(load_target("qemu-rpi4")) != target_fingerprint(load_target("rpi4"))
    assert target_fingerprint(load_target("qemu-aarch64")) != target_fingerprint(load_target("generic-aarch64"))


def test_the_example_of_the_documentation_is_valid(boards: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "boards.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    boards.write_text(example, encoding="utf-8")
    assert {address.name for address in list_addresses()} == set(yaml.safe_load(example)["boards"])
