"""`edgetune boards check`: tests the boards that a name resolves to and reports each problem with its fix.

For a board that a farm lends, it asks the farm's tracker; the ssh host is only the way to it.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace

from edgetune.boards.conditions import findings as condition_findings
from edgetune.boards.conditions import probe
from edgetune.boards.reach import BoardFacts, Reach
from edgetune.boards.round_trip import ANSWER, allowed_s
from edgetune.config.boards_file import BoardAddress, ResolvedBoard
from edgetune.errors import (
    AuthenticationRefused,
    BoardFull,
    BoardUnavailable,
    BoardUnfit,
    EdgetuneError,
    HostKeyRefused,
    ToolchainMissing,
)
from edgetune.events import Event
from edgetune.findings import Finding
from edgetune.target.board_check import check_board
from edgetune.target.programs import compiler_of, emulator_of, install_line, machine_of, missing, missing_words
from edgetune.target.target import Target
from edgetune.yaml_reader.quantities import format_bytes

_AT_ONCE = 16
_LOW_SPACE = 64 * 1024**2
_NO_SPACE = 4 * 1024**2

Open = Callable[[Target, BoardAddress | None, Callable[[Event], None]], Reach]


def check(resolved: ResolvedBoard, open_reach: Open | None = None) -> Iterator[Finding]:
    """Yield the findings: first on this machine, then on each board, several boards at once.

    Changes no setting of a board and leaves nothing there: it makes a folder, tries a program in it and removes both.
    It also removes the files of earlier sessions that crashed. `open_reach` makes the reach of a board.
    """
    target, addresses = resolved.target, resolved.addresses
    yield from check_here(target, alone=not addresses)
    if target.addressable and not addresses:
        fix = f"edgetune boards add NAME --target {target.name} --ssh USER@HOST"
        detail = "no board of this kind has an address, so nothing can be measured"
        yield Finding("address", False, detail, fix, target.reach == "ssh", BoardUnavailable.exit_code)
    boards: tuple[BoardAddress | None, ...] = addresses or ((None,) if target.emulated else ())
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="check") as pool:
        for found in pool.map(lambda address: check_one(target, address, open_reach or _open_reach), boards):
            yield from found


def check_one(target: Target, address: BoardAddress | None, open_reach: Open) -> list[Finding]:
    """Return the findings of one board; without an address it is the emulated board of `target`."""
    name = address.name if address else target.name
    events: list[Event] = []
    try:
        reach = open_reach(target, address, events.append)
    except EdgetuneError as error:
        return [_of_board(_fault("connection", error, ""), name)]
    try:
        found = [_of_board(finding, name) for finding in inspect(reach, target, address)]
        # Report what the board lacks and what replaces it: it works, but the user should know.
        notes = [str(event.data["detail"]) for event in events if event.data.get("what") == "fallback"]
        return [*found, *(Finding("fallback", True, note, board=name) for note in notes)]
    finally:
        with suppress(BoardUnavailable):
            reach.clean()
        reach.close()


def inspect(reach: Reach, target: Target, address: BoardAddress | None) -> Iterator[Finding]:
    """Yield the findings of one board; stops at the first step that makes the rest impossible."""
    name = address.name if address else target.name
    try:
        reach.connect()
    except EdgetuneError as error:
        yield from _no_way(error, address, name)
        return
    yield from _way(address)
    if address is not None and address.farm:
        yield from inspect_farm(reach, target, address)
        return
    cores: Sequence[int] = address.cores if address else ()
    try:
        facts = reach.facts()
    except BoardUnfit as error:
        yield _fault("architecture", error, "set `target:` in boards.yaml to its kind (`edgetune boards list`)")
    except BoardFull as error:
        yield _fault("folder", error, "free some space there, or name another folder with `folder:` in boards.yaml")
    except BoardUnavailable as error:
        yield _fault("facts", error, f"edgetune boards shell {name}")
        return
    else:
        yield from _facts(facts, cores)
        cores = cores or (facts.cores - 1,)
    if address is None:
        return  # an emulator has the conditions of this machine
    try:
        told, skew_s = probe(reach, cores or (0,))
    except BoardUnavailable as error:
        yield _fault("shell", error, f"edgetune boards shell {name}")
        return
    yield from condition_findings(name, told, skew_s)


def _way(address: BoardAddress | None) -> Iterator[Finding]:
    where = "started here" if address is None else address.ssh
    yield Finding("reachable", True, f"{where}, the host that reaches its farm" if address and address.farm else where)
    if address:
        yield Finding("host key", True, "known")
        yield Finding("login", True, "by key")


def _no_way(error: EdgetuneError, address: BoardAddress | None, name: str) -> Iterator[Finding]:
    """Report which step of connecting failed; the steps before it succeeded."""
    if address is None:
        yield _fault("reachable", error, f"edgetune boards setup {name}")
        return
    passed = list(_way(address))
    if isinstance(error, HostKeyRefused):
        yield from passed[:1]
        yield _fault("host key", error, f"edgetune boards trust {name}")
    elif isinstance(error, AuthenticationRefused):
        yield from passed[:2]
        yield _fault("login", error, f"{_login(address, 'ssh-copy-id')}, or `identity:` in boards.yaml")
    else:
        yield _fault("reachable", error, f"switch it on, or correct its address; `{_login(address)}` must work")


def _login(address: BoardAddress, program: str = "ssh") -> str:
    """Return the command line by which `program` connects to the board, quoted for a shell."""
    user, _, rest = address.ssh.rpartition("@")
    bracketed = re.fullmatch(r"\[(.+)\](?::(\d+))?", rest)
    host, port = bracketed.groups() if bracketed else (rest.partition(":")[0], rest.partition(":")[2])
    words = [program, *(("-p", port) if port else ()), *(("-i", address.identity) if address.identity else ())]
    return shlex.join([*words, f"{user}@{host}" if user else host])


def _facts(facts: BoardFacts, cores: Sequence[int]) -> Iterator[Finding]:
    yield Finding("architecture", True, f"{facts.machine}, {facts.bits}-bit programs, Linux {facts.kernel}")
    yield Finding("libc", True, facts.libc or "it does not report it")
    absent = [str(core) for core in cores if core >= facts.cores]
    if absent:
        detail = f"core {', '.join(absent)} does not exist: the board has cores 0 to {facts.cores - 1}"
        yield Finding("cores", False, detail, "correct `cores:` in boards.yaml", True, BoardUnfit.exit_code)
    else:
        chosen = ", ".join(str(core) for core in cores) or str(facts.cores - 1)
        yield Finding("cores", True, f"times on core {chosen} of {facts.cores}")
    detail = f"{facts.folder}, {format_bytes(facts.free_bytes)} free"
    roomy = facts.free_bytes >= _LOW_SPACE
    fix = "" if roomy else "free some space there, or name another folder with `folder:` in boards.yaml"
    yield Finding("folder", roomy, detail, fix, facts.free_bytes < _NO_SPACE, BoardFull.exit_code)


def check_here(target: Target, *, alone: bool) -> Iterator[Finding]:
    """Yield the findings on this machine; one finding names all missing programs.

    A user-mode emulator is required only where it runs the programs: where no board does (`alone`) and the target is
    not an emulated machine.
    """
    emulated = alone and target.reach != "machine"
    emulators = emulator_of(target) if emulated else ()
    if absent := missing((compiler_of(target), *emulators, *machine_of(target))):
        yield Finding("tools", False, missing_words(absent), install_line(absent), True, ToolchainMissing.exit_code)
        return
    for finding in check_board(target, emulated=emulated):
        compiles = not finding.check.startswith("runs ")
        yield replace(finding, required=compiles or alone)
    if target.reach == "machine":
        yield Finding("machine emulator", True, shutil.which("qemu-system-aarch64") or "")


def _open_reach(target: Target, address: BoardAddress | None, on_event: Callable[[Event], None]) -> Reach:
    from edgetune.boards.opening import open_reach

    return open_reach(target, address, on_event)


def _of_board(finding: Finding, name: str) -> Finding:
    """Put the board's name into its own column instead of into the sentence."""
    return replace(finding, board=name, detail=finding.detail.removeprefix(f"board '{name}': "))


def _fault(check: str, error: EdgetuneError, fix: str) -> Finding:
    return Finding(check, False, error.message, fix, True, error.exit_code)


def inspect_farm(reach: Reach, target: Target, address: BoardAddress) -> Iterator[Finding]:
    """Yield what the tracker reports about the boards with the key of `address`; `reach` is connected to the ssh host.

    No board is leased, so other users' measurements continue.
    """
    from edgetune.boards.tvm_rpc.deploy import ForwardedPort
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
