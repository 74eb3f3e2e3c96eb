"""`edgetune boards check` of a board that a farm lends: its tracker is asked, the ssh host is only the way there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from edgetune.boards.reach import Reach
from edgetune.boards.round_trip import ANSWER, allowed_s
from edgetune.config.boards_file import BoardAddress
from edgetune.config.findings import Finding
from edgetune.config.target import Target
from edgetune.errors import BoardUnavailable


def inspect_farm(reach: Reach, target: Target, address: BoardAddress) -> Iterator[Finding]:
    """Yield what the tracker tells of the boards with the key of `address`; `reach` is connected to the ssh host.

    No board is leased: whoever measures on them goes on.
    """
    from edgetune.boards.tvm_rpc.deploy import Tunnel
    from edgetune.boards.tvm_rpc.opening import through
    from edgetune.boards.tvm_rpc.tracker_client import STEP_S, TrackerClient

    assert address.tracker is not None  # noqa: S101 (a farm's)
    host, _, port = address.tracker.rpartition(":")
    key = address.key or target.name
    tunnels: dict[int, Tunnel] = {}
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
