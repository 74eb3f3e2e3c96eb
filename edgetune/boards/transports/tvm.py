"""TVM's RPC server: one of a farm, or one that edgetune brings to the board over its link."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from edgetune.boards.host_resources import OnEvent
from edgetune.boards.protocol import Board
from edgetune.boards.reach import Reach
from edgetune.boards.round_trip import ANSWER, allowed_s
from edgetune.boards.transport import BoardRequest, Transport
from edgetune.boards.transports.agent import ssh_link
from edgetune.config.boards_file import LOCAL_TRACKER, BoardAddress, BoardEntry
from edgetune.errors import BoardUnavailable, UsageError
from edgetune.findings import Finding
from edgetune.target.board_kind import BoardKind
from edgetune.target.isa import INSTRUCTION_SETS
from edgetune.target.target import KeyFault, with_cpu

if TYPE_CHECKING:
    from edgetune.boards.tvm_rpc.deploy import ForwardedPort


class TvmTransport(Transport):
    """TVM's RPC, through the SSH address of the board or of its farm."""

    server = "TVM's RPC server"

    def link(self, target: BoardKind, address: BoardAddress | None, on_event: OnEvent) -> Reach:
        """Return the shell and files of the ssh host."""
        return ssh_link(with_cpu(target), address, on_event)

    def board(self, request: BoardRequest) -> Board:
        """Return the board; raises UsageError for cold caches, which only the agent sweeps."""
        reach = request.link()
        if request.target.caches == "cold":
            raise UsageError(
                f"board '{reach.name}' is timed with cold caches, which only the agent does: leave out tvm"
            )
        from edgetune.boards.tvm_rpc.opening import open_tvm_board

        own = request.host.folder / "rpc" / reach.name
        own.mkdir(parents=True, exist_ok=True)
        return open_tvm_board(
            request.address,
            request.target,
            own,
            reach,
            request.host.on_event,
            lock_timeout_s=request.host.lock_timeout_s,
        )

    def conflict(self, address: BoardEntry, target: BoardKind) -> KeyFault | None:
        """Refuse boards to which no server can be brought, and keys of a tracker without one."""
        cpu = with_cpu(target)
        if not self.lends(address) and not cpu.instruction_set.tvm_wheels:
            served = sorted(name for name, isa in INSTRUCTION_SETS.items() if isa.tvm_wheels)
            where = f"edgetune has no TVM server for {cpu.isa}, only for {' and '.join(served)}"
            return KeyFault("rpc", f"is tvm, but {where}: name the tracker of a farm, or leave rpc out")
        used: dict[str, object] = {"tracker": None}
        if self.lends(address):
            used["key"] = None
        if address.tracker is not None:
            used["priority"] = 1
        return super().conflict(address.model_copy(update=used), target)

    def lends(self, address: BoardEntry) -> bool:
        """Whether the tracker is that of a farm; the ssh host is then only the way to it."""
        return address.tracker not in {None, LOCAL_TRACKER}

    def inspect(self, reach: Reach, target: BoardKind, address: BoardAddress | None) -> Iterator[Finding]:
        """Yield what the tracker of a farm reports; any other board is inspected as usual."""
        if address is None or not self.lends(address):
            return super().inspect(reach, target, address)
        return _inspect_farm(reach, target, address)


def _inspect_farm(reach: Reach, target: BoardKind, address: BoardAddress) -> Iterator[Finding]:
    """Yield what the tracker reports about the boards with the key of `address`; `reach` is connected to the ssh host.

    No board is leased, so other users' measurements continue.
    """
    from edgetune.boards.tvm_rpc.opening import through
    from edgetune.boards.tvm_rpc.tracker_client import STEP_S, TrackerClient

    assert address.tracker is not None  # noqa: S101 (a farm's)
    host, _, port = address.tracker.rpartition(":")
    key = address.key or target.name
    tunnels: dict[int, ForwardedPort] = {}
    limit_s = allowed_s(STEP_S, reach.round_trip_s, ANSWER)
    try:
        with closing(
            TrackerClient(*through(reach, tunnels)(host, int(port)), where=address.tracker, timeout_s=limit_s)
        ) as client:
            told = client.summary()
    except BoardUnavailable as error:
        fix = "correct `tracker:` in boards.yaml, or ask the farm's operator"
        yield Finding("tracker", False, error.message, fix, True, error.exit_code)
        return
    finally:
        for tunnel in tunnels.values():
            tunnel.close()
    servers = told.get("server_info")
    keys = [one.get("key") for one in servers if isinstance(one, dict)] if isinstance(servers, list) else []
    count = keys.count(f"server:{key}")
    if count:
        yield Finding("tracker", True, f"{address.tracker} has key '{key}' on {count} of its boards")
        return
    detail = f"{address.tracker} knows no board with key '{key}'"
    fix = "correct `key:` in boards.yaml, or ask the farm's operator"
    yield Finding("tracker", False, detail, fix, True, BoardUnavailable.exit_code)


TVM = TvmTransport()
