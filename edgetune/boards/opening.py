"""Factory of boards: makes the boards of a target, or the reach to one, from the target's `reach` and its addresses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.boards.cores import CoreSplit, split_cores
from edgetune.boards.lock import LOCK_TIMEOUT_S
from edgetune.boards.options import MeasuringOptions
from edgetune.boards.protocol import Board
from edgetune.boards.reach import Reach
from edgetune.config.boards_file import BoardAddress, require_measurable
from edgetune.errors import BoardUnavailable, UsageError
from edgetune.events import Event
from edgetune.target.target import Target
from edgetune.target.toolchain import require_trust

if TYPE_CHECKING:
    from edgetune.boards.agent.board import AgentBoard

OnEvent = Callable[[Event], None]


def open_boards(
    target: Target,
    options: MeasuringOptions,
    folder: Path,
    split: CoreSplit,
    *,
    lock_file: Path | None = None,
    lock_timeout_s: float = LOCK_TIMEOUT_S,
    on_event: OnEvent = lambda _: None,
) -> list[Board]:
    """Return the boards to measure on; none is connected yet.

    `folder` of this machine takes the boards' own files; `lock_timeout_s` limits the wait for a board that another run
    uses. Raises BoardUnavailable when the target cannot be measured from here. Raises UsageError when its times can
    never reach the trust that `options` ask for, or when the `rpc` of `options` does not work with one of its boards.
    """
    require_measurable(target, options.addresses)
    require_trust(target, options.min_trust)
    if options.rpc == "tvm" and target.reach in {"local", "emulator"}:
        why = "is this machine" if target.reach == "local" else "counts instructions, which only the agent does"
        raise UsageError(f"board '{target.name}' {why}: leave out --rpc tvm")
    for address in options.addresses:
        _check_rpc(address, target, options)
    if target.reach == "local":
        from edgetune.boards.local.board import LocalBoard

        return [
            LocalBoard(target, folder, split, lock_file=lock_file, lock_timeout_s=lock_timeout_s, on_event=on_event)
        ]
    addresses: tuple[BoardAddress | None, ...] = options.addresses or (None,)
    return [_board(target, address, options, folder, lock_timeout_s, on_event) for address in addresses]


def boards_of(
    target: Target,
    options: MeasuringOptions,
    *,
    lock_file: Path | None = None,
    lock_timeout_s: float = LOCK_TIMEOUT_S,
) -> Callable[[Path, OnEvent], list[Board]]:
    """Return a function that makes the boards of a measuring session in a folder, and reports their events."""

    def opened(folder: Path, on_event: OnEvent) -> list[Board]:
        split = split_cores()
        return open_boards(
            target, options, folder, split, lock_file=lock_file, lock_timeout_s=lock_timeout_s, on_event=on_event
        )

    return opened


def open_reach(target: Target, address: BoardAddress | None, on_event: OnEvent = lambda _: None) -> Reach:
    """Return the reach to a board, not yet connected; emulators and emulated machines have no address.

    Raises BoardUnavailable when the board cannot be reached from here.
    """
    if target.reach == "emulator":
        from edgetune.boards.process import ProcessReach

        return ProcessReach(target.name, target)
    if target.reach == "machine":
        from edgetune.boards.machine.reach import MachineReach

        return MachineReach(target, on_event)
    if address is None:
        raise BoardUnavailable(
            f"board '{target.name}' has no address: `edgetune boards add NAME --target {target.name} --ssh "
            "USER@HOST` gives one"
        )
    from edgetune.boards.ssh.reach import SshReach

    return SshReach(address, target, on_event=on_event)


def _check_rpc(address: BoardAddress, target: Target, options: MeasuringOptions) -> None:
    """Refuse a user's `rpc` that cannot work; the one in boards.yaml was checked when that file was read."""
    if options.rpc == "agent" and address.farm:
        raise UsageError(
            f"board '{address.name}' is lent by a tracker, and its ssh host only reaches the tracker: leave out "
            "--rpc agent, or the same in EDGETUNE_RPC or edgetune.yaml"
        )
    if options.rpc == "tvm" and (conflict := address.model_copy(update={"rpc": "tvm"}).conflict(target)) is not None:
        raise UsageError(f"board '{address.name}': {' '.join(conflict)}")


def _board(
    target: Target,
    address: BoardAddress | None,
    options: MeasuringOptions,
    folder: Path,
    lock_timeout_s: float,
    on_event: OnEvent,
) -> Board:
    reach = open_reach(target, address, on_event)
    rpc = options.rpc or (address.rpc if address is not None else "agent")
    if rpc == "tvm":
        if target.caches == "cold":
            raise UsageError(
                f"board '{reach.name}' is timed with cold caches, which only the agent does: leave out tvm"
            )
        from edgetune.boards.tvm_rpc.opening import open_tvm_board

        own = folder / "rpc" / reach.name
        own.mkdir(parents=True, exist_ok=True)
        return open_tvm_board(address, target, own, reach, on_event, lock_timeout_s=lock_timeout_s)
    return open_agent_board(target, address, lock_timeout_s=lock_timeout_s, on_event=on_event, reach=reach)


def open_agent_board(
    target: Target,
    address: BoardAddress | None,
    *,
    lock_timeout_s: float = LOCK_TIMEOUT_S,
    on_event: OnEvent = lambda _: None,
    reach: Reach | None = None,
) -> AgentBoard:
    """Return a board that the agent serves, not yet connected, by `reach` or else by the reach of its address.

    Its lock is the same one that our TVM RPC server takes on such a board. Raises BoardUnavailable when the board
    cannot be reached from here.
    """
    from edgetune.boards.agent.board import AgentBoard

    reach = reach or open_reach(target, address, on_event)
    cores = address.cores if address is not None else ()
    return AgentBoard(
        reach.name,
        target,
        reach,
        cores=cores,
        cold_bytes=target.cold_bytes,
        lock_timeout_s=lock_timeout_s,
        on_event=on_event,
    )
