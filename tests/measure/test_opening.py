"""Which board a target and its addresses become."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgetune.boards.access import BoardAccess
from edgetune.boards.agent.board import AgentBoard
from edgetune.boards.cores import split_cores
from edgetune.boards.host_resources import HostResources
from edgetune.boards.local.board import LocalBoard
from edgetune.boards.machine.reach import MachineReach
from edgetune.boards.process import ProcessReach
from edgetune.boards.ssh.reach import SshReach
from edgetune.boards.transports.agent import AGENT
from edgetune.boards.tvm_rpc.board import TvmRpcBoard
from edgetune.config.boards_file import BoardAddress, ResolvedBoard
from edgetune.config.settings import CommandLineFlags, Settings
from edgetune.errors import BoardUnavailable, UsageError
from edgetune.pipeline.boards import accesses, measured_boards, resolve_settings
from edgetune.target.target import Target, load_target


def opened(
    target: Target, folder: Path, addresses: tuple[BoardAddress, ...] = (), rpc: str | None = None
) -> list[object]:
    host = HostResources(folder, split_cores(), folder / "lock")
    boards = [access.board(host) for access in reached(target, addresses, rpc)]
    kinds: list[object] = [(type(board), board.name) for board in boards]
    for board in boards:
        board.close()
    return kinds


def reached(
    target: Target, addresses: tuple[BoardAddress, ...] = (), rpc: str | None = None
) -> tuple[BoardAccess, ...]:
    return accesses(ResolvedBoard(target, addresses), rpc)


@pytest.fixture
def addresses() -> tuple[BoardAddress, ...]:
    return tuple(
        BoardAddress(name=f"shelf-{number}", target="rpi4", ssh="pi@127.0.0.1:1", cores=(3,)) for number in (1, 2)
    )


def test_this_machine_and_emulators_need_no_address(tmp_path: Path) -> None:
    assert opened(load_target("host"), tmp_path) == [(LocalBoard, "host")]
    assert opened(load_target("qemu-aarch64"), tmp_path) == [(AgentBoard, "qemu-aarch64")]
    (emulated,) = reached(load_target("qemu-armv7"))
    reach = emulated.link()
    assert isinstance(reach, ProcessReach)
    reach.close()


def test_every_address_is_a_board(tmp_path: Path, addresses: tuple[BoardAddress, ...]) -> None:
    target = load_target("rpi4")
    found = opened(target, tmp_path, addresses)
    assert found == [(AgentBoard, "shelf-1"), (AgentBoard, "shelf-2")]
    assert all(isinstance(access.link(), SshReach) for access in reached(target, addresses))


@pytest.mark.parametrize("rpc", ["agent", "tvm"])
def test_every_way_to_talk_waits_as_long_as_it_is_told(
    tmp_path: Path, addresses: tuple[BoardAddress, ...], rpc: str
) -> None:
    boards = reached(load_target("rpi4"), addresses[:1], rpc)
    (access,) = boards
    board = access.board(HostResources(tmp_path, split_cores(), lock_timeout_s=7.0))
    assert isinstance(board, AgentBoard | TvmRpcBoard)
    assert board._lock_timeout_s == 7.0
    board.close()


@pytest.mark.long
def test_the_options_choose_the_way_to_talk(tmp_path: Path, addresses: tuple[BoardAddress, ...]) -> None:
    target = load_target("rpi4")
    found = opened(target, tmp_path, addresses[:1], "tvm")
    assert found == [(TvmRpcBoard, "shelf-1")]
    with pytest.raises(UsageError, match="counts instructions"):
        opened(load_target("qemu-aarch64"), tmp_path, rpc="tvm")
    with pytest.raises(UsageError, match="is this machine"):
        opened(load_target("host"), tmp_path, rpc="tvm")


def test_the_default_of_the_options_is_the_way_of_the_target_itself(tmp_path: Path) -> None:
    assert opened(load_target("host"), tmp_path, rpc="agent") == [(LocalBoard, "host")]
    assert opened(load_target("qemu-aarch64"), tmp_path, rpc="agent") == [(AgentBoard, "qemu-aarch64")]


@pytest.mark.long
def test_another_way_to_talk_to_an_emulated_machine_takes_its_link(tmp_path: Path) -> None:
    machine = load_target("qemu-rpi4")
    (access,) = reached(machine, rpc="tvm")
    assert isinstance(access.link(), MachineReach)
    assert "qemu-system-aarch64" in {program.name for program in access.programs}
    assert opened(machine, tmp_path, rpc="tvm") == [(TvmRpcBoard, "qemu-rpi4")]


def test_keys_that_only_the_other_way_has_do_no_harm(tmp_path: Path) -> None:
    tracked = BoardAddress(name="shelf-1", target="rpi4", ssh="shelf-1", rpc="tvm", tracker="local", priority=3)
    assert opened(load_target("rpi4"), tmp_path, (tracked,), "agent") == [(AgentBoard, "shelf-1")]


@pytest.mark.long
def test_a_board_of_a_farm_is_reached_by_its_tracker_alone(tmp_path: Path) -> None:
    farmed = BoardAddress(name="farm-7", target="rpi4", ssh="farm.example", rpc="tvm", tracker="localhost:9190")
    assert opened(load_target("rpi4"), tmp_path, (farmed,)) == [(TvmRpcBoard, "farm-7")]
    with pytest.raises(UsageError, match=r"'farm-7' is lent by a tracker, .* leave out --rpc agent"):
        opened(load_target("rpi4"), tmp_path, (farmed,), "agent")


def test_a_server_that_cannot_be_brought_is_told_before_the_board_is_asked(tmp_path: Path) -> None:
    small = BoardAddress(name="small", target="generic-armv7", ssh="small")
    with pytest.raises(UsageError, match="board 'small': rpc is tvm, but edgetune has no TVM server for armv7"):
        opened(load_target("generic-armv7"), tmp_path, (small,), "tvm")


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    def settings(board: str, **changes: Any) -> Settings:
        model = Path(__file__).parents[2] / "examples/models/ad_ae.onnx"
        flags = CommandLineFlags(model=model, board=board, trials=1)
        return replace(resolve_settings(flags, {}, tmp_path), **changes)

    with pytest.raises(BoardUnavailable, match="edgetune boards add"):
        measured_boards(settings("rpi4"))
    with pytest.raises(BoardUnavailable, match="edgetune boards add"):
        AGENT.link(load_target("rpi4"), None, lambda _: None)
    with pytest.raises(UsageError, match="emulated"):
        measured_boards(settings("qemu-aarch64", min_trust="B"))


def test_cold_caches_are_a_matter_of_the_target(tmp_path: Path, addresses: tuple[BoardAddress, ...]) -> None:
    cold = load_target("rpi4").model_copy(update={"caches": "cold"})
    (access,) = reached(cold, addresses[:1])
    board = access.board(HostResources(tmp_path, split_cores()))
    assert isinstance(board, AgentBoard)
    assert board._cold_bytes == 16 * cold.l2_bytes
    with pytest.raises(UsageError, match="'shelf-1' is timed with cold caches, which only the agent does"):
        reached(cold, addresses[:1], "tvm")[0].board(HostResources(tmp_path, split_cores()))
