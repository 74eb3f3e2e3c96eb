"""Makes the boards of a target, or the way to one, by its `reach` and the addresses there are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.boards.board import Board
from edgetune.boards.reach import Reach
from edgetune.config.boards_file import BoardAddress
from edgetune.config.target import Target
from edgetune.config.toolchain import require_measurable, require_trust
from edgetune.errors import BoardUnavailable, UsageError
from edgetune.events import Event
from edgetune.measure.cores import CoreSplit
from edgetune.measure.lock import LOCK_TIMEOUT_S
from edgetune.measure.options import MeasuringOptions

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
    """Return the boards to measure on; none is connected to yet.

    `folder` is one of this machine, for the boards' own files; `lock_timeout_s` is how long somebody else may keep a
    board before it counts as busy. Raises BoardUnavailable when the target cannot be
    measured from here, and UsageError when its times can never be trusted as far as `options` asks, or when the way to
    talk that `options` choose is none to one of its boards.
    """
    require_measurable(target, options.addresses)
    require_trust(target, options.min_trust)
    if options.rpc == "tvm" and target.reach in {"local", "emulator"}:
        why = "is this machine" if target.reach == "local" else "counts instructions, which only the agent can do"
        raise UsageError(f"board '{target.name}' {why}: leave out --rpc tvm")
    for address in options.addresses:
        _check_rpc(address, target, options)
    if target.reach == "local":
        from edgetune.boards.local import LocalBoard

        return [
            LocalBoard(target, folder, split, lock_file=lock_file, lock_timeout_s=lock_timeout_s, on_event=on_event)
        ]
    addresses: tuple[BoardAddress | None, ...] = options.addresses or (None,)
    return [_board(target, address, options, folder, lock_timeout_s, on_event) for address in addresses]


def open_reach(target: Target, address: BoardAddress | None, on_event: OnEvent = lambda _: None) -> Reach:
    """Return the way to a board, not yet connected; emulators and machines have no address.

    Raises BoardUnavailable when there is no way from here.
    """
    if target.reach == "emulator":
        from edgetune.boards.process import ProcessReach

        return ProcessReach(target.name, target)
    if target.reach == "machine":
        from edgetune.boards.machine.reach import MachineReach

        return MachineReach(target, on_event)
    if address is None:
        raise BoardUnavailable(
            f"no way leads to board '{target.name}': `edgetune boards add NAME --target {target.name} --ssh USER@HOST` "
            "tells one"
        )
    from edgetune.boards.ssh.reach import SshReach

    return SshReach(address, target, on_event=on_event)


def _check_rpc(address: BoardAddress, target: Target, options: MeasuringOptions) -> None:
    """Refuse a choice of the user's that cannot work; what boards.yaml says itself was checked when it was read."""
    if options.rpc == "agent" and address.farm:
        raise UsageError(
            f"board '{address.name}' is lent by a tracker, its ssh host is only the way there: leave out --rpc agent, "
            "or EDGETUNE_RPC and `rpc:` of edgetune.yaml that say the same"
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
    """Return a board that our agent serves, not yet connected, by `reach` or else by the way of its address.

    Its lock is the one that TVM's server takes as well where we bring that. Raises BoardUnavailable when there is no
    way from here.
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
