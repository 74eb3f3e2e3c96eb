"""`edgetune boards check`: tests the boards that a name resolves to and reports each problem with its fix."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

from edgetune.boards.access import BoardAccess
from edgetune.boards.conditions import findings as condition_findings
from edgetune.boards.conditions import probe
from edgetune.boards.reach import BoardFacts, Reach
from edgetune.boards.transport import Transport
from edgetune.config.boards_file import BoardAddress
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
from edgetune.target.board_check import StartWords, check_board, hosted
from edgetune.target.board_kind import BoardKind
from edgetune.target.programs import RequiredProgram, compiler_of, emulator_of, install_line, missing, missing_words
from edgetune.target.target import with_cpu
from edgetune.yaml_reader.quantities import format_bytes

_AT_ONCE = 16
_LOW_SPACE = 64 * 1024**2
_NO_SPACE = 4 * 1024**2


def check(
    target: BoardKind, boards: Sequence[BoardAccess], start: StartWords = hosted, *, timed: bool = True
) -> Iterator[Finding]:
    """Yield the findings: first on this machine, then on each of the `boards` of `target`, several at once.

    Changes no setting of a board and leaves nothing there: it makes a folder, tries a program in it and removes both.
    It also removes the files of earlier sessions that crashed. `start` is that of the target's backend, `timed` whether
    that can time candidates.
    """
    yield from check_here(target, boards, start)
    if not boards and timed:
        fix = f"edgetune boards add NAME --target {target.name} --ssh USER@HOST"
        detail = "no board of this kind has an address, so nothing can be measured"
        yield Finding("address", False, detail, fix, target.reach == "ssh", BoardUnavailable.exit_code)
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="check") as pool:
        for found in pool.map(check_one, [access for access in boards if access.carrier.linked]):
            yield from found


def check_one(access: BoardAccess) -> list[Finding]:
    """Return the findings of one board."""
    events: list[Event] = []
    try:
        reach = access.link(events.append)
    except EdgetuneError as error:
        return [_of_board(_fault("connection", error, ""), access.name)]
    try:
        found = [_of_board(finding, access.name) for finding in inspect(reach, access)]
        # Report what the board lacks and what replaces it: it works, but the user should know.
        notes = [str(event.data["detail"]) for event in events if event.data.get("what") == "fallback"]
        return [*found, *(Finding("fallback", True, note, board=access.name) for note in notes)]
    finally:
        with suppress(BoardUnavailable):
            reach.clean()
        reach.close()


def inspect(reach: Reach, access: BoardAccess) -> Iterator[Finding]:
    """Yield the findings of one board; stops at the first step that makes the rest impossible."""
    try:
        reach.connect()
    except EdgetuneError as error:
        yield from _no_way(error, access)
        return
    yield from _way(access)
    yield from access.transport.inspect(reach, access.target, access.address)


def inspect_board(reach: Reach, target: BoardKind, address: BoardAddress | None) -> Iterator[Finding]:
    """Yield the facts and conditions of a board to which `reach` is connected."""
    name = address.name if address else target.name
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


def _way(access: BoardAccess) -> Iterator[Finding]:
    address = access.address
    where = "started here" if address is None else address.ssh
    yield Finding("reachable", True, f"{where}, the host that reaches its farm" if access.lent else where)
    if address:
        yield Finding("host key", True, "known")
        yield Finding("login", True, "by key")


def _no_way(error: EdgetuneError, access: BoardAccess) -> Iterator[Finding]:
    """Report which step of connecting failed; the steps before it succeeded."""
    address = access.address
    if address is None:
        yield _fault("reachable", error, f"edgetune boards setup {access.name}")
        return
    passed = list(_way(access))
    if isinstance(error, HostKeyRefused):
        yield from passed[:1]
        yield _fault("host key", error, f"edgetune boards trust {access.name}")
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


def own_transport(boards: Sequence[BoardAccess]) -> Transport | None:
    """Return the transport of a target that needs no address; None where its boards have addresses."""
    return next((access.carrier for access in boards if access.address is None), None)


def check_here(target: BoardKind, boards: Sequence[BoardAccess], start: StartWords = hosted) -> Iterator[Finding]:
    """Yield the findings on this machine; one finding names all missing programs.

    A user-mode emulator is required only where it runs the programs: where neither a board does, nor the target's own
    transport.
    """
    own = own_transport(boards)
    alone = own is not None or not boards
    more: tuple[RequiredProgram, ...] = () if boards else emulator_of(target)
    if own is not None:
        more = own.programs(with_cpu(target))
    if absent := missing((compiler_of(target), *more)):
        yield Finding("tools", False, missing_words(absent), install_line(absent), True, ToolchainMissing.exit_code)
        return
    for finding in check_board(target, emulated=alone and not (own is not None and own.elsewhere), start=start):
        compiles = not finding.check.startswith("runs ")
        yield replace(finding, required=compiles or alone)
    if own is not None:
        yield from own.findings_here(with_cpu(target))


def _of_board(finding: Finding, name: str) -> Finding:
    """Put the board's name into its own column instead of into the sentence."""
    return replace(finding, board=name, detail=finding.detail.removeprefix(f"board '{name}': "))


def _fault(check: str, error: EdgetuneError, fix: str) -> Finding:
    return Finding(check, False, error.message, fix, True, error.exit_code)
