"""Boards by name: looks up the installed transports, and hands them down to whatever reads, checks or opens boards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetune.boards import check as boards_check
from edgetune.boards.access import BoardAccess
from edgetune.boards.transport import Transport
from edgetune.config import boards_add, boards_file, doctor, settings
from edgetune.config.boards_file import BoardAddress, BoardEntry, ResolvedBoard, require_measurable
from edgetune.config.settings import CommandLineFlags, Settings, StatedSizes
from edgetune.config.stack import check_stack
from edgetune.config.transport_rules import TransportRules
from edgetune.errors import ConfigError, StackMismatch, UsageError
from edgetune.findings import Finding
from edgetune.pipeline import backends
from edgetune.pipeline.backends import backend_of, packages_only, require_search, start_words, untimed
from edgetune.registry import Registry
from edgetune.target import target as target_files
from edgetune.target.board_kind import BoardKind
from edgetune.target.programs import require_programs
from edgetune.target.target import KeyFault, Target, is_shipped
from edgetune.target.tool_names import emulator_fault
from edgetune.target.toolchain import require_trust
from edgetune.yaml_reader.nearest import nearest

TRANSPORTS: Registry[Transport] = Registry("transport", "edgetune.transports", Transport)

_BY_ADDRESS = ("ssh", "none")  # what `reach` says where the address of a board names the transport


@dataclass(frozen=True)
class InstalledTransports:
    """The rules of all installed transports, and of the backends where a target file names one.

    With `ask`, LLVM, the compiler and the emulator are asked for the names in a user's own target file.
    """

    ask: bool = False

    def target_fault(self, target: BoardKind) -> KeyFault | None:
        """Refuse an unknown `backend` or `reach`, a `reach` that needs an address, and what their members refuse.

        With `ask`, also refuse a CPU, a triple, a feature, and a machine or CPU of an emulator that nothing knows.
        """
        fault = self._fault_of_members(target)
        return fault if fault is not None or not self.ask else _unknown_name(target)

    def _fault_of_members(self, target: BoardKind) -> KeyFault | None:
        if (fault := backends.target_fault(target)) is not None:
            return fault
        if not isinstance(target, Target):
            why = f"must be none, not '{target.reach}': candidates of a GPU are timed in rounds (`--via`)"
            return None if target.reach == "none" else KeyFault("reach", why)
        if target.addressable:
            return _transport(None, target).target_fault(target)
        if not TRANSPORTS.has(target.reach):
            own = [name for name in TRANSPORTS.names() if TRANSPORTS.get(name).without_address]
            known = nearest(target.reach, [*own, *_BY_ADDRESS])
            return KeyFault("reach", f"must be the name of a transport, ssh or none, not '{target.reach}': {known}")
        transport = TRANSPORTS.get(target.reach, ConfigError)
        if not transport.without_address:
            why = f"is '{target.reach}', which needs an address: write ssh, and 'rpc: {target.reach}' in boards.yaml"
            return KeyFault("reach", why)
        return transport.target_fault(target)

    def address_fault(self, address: BoardEntry, target: BoardKind) -> KeyFault | None:
        """Refuse an unknown `rpc`, and a key that the transport has no use for."""
        if why := packages_only(target):
            return KeyFault("target", f"is '{target.name}', which is for packages only: {why}")
        if address.rpc is not None and (why := self.rpc_fault(address.rpc)):
            return KeyFault("rpc", why)
        return _conflict(_transport(address.rpc, target), address, target)

    def rpc_fault(self, name: str) -> str:
        """Refuse a name that is unknown, or that of a transport without an address."""
        if TRANSPORTS.has(name) and not TRANSPORTS.get(name, ConfigError).without_address:
            return ""
        return f"must be the name of a transport to an address, not '{name}': {nearest(name, addressed_transports())}"

    def without_address(self, target: BoardKind) -> str:
        """Return the reason of the target's transport."""
        return TRANSPORTS.get(target.reach, ConfigError).without_address

    def here(self, target: BoardKind) -> bool:
        """Whether the target's transport takes this machine."""
        transport = own_transport(target)
        return transport is not None and transport.here


RULES: TransportRules = InstalledTransports()
ASKING_RULES: TransportRules = InstalledTransports(ask=True)


def _unknown_name(target: BoardKind) -> KeyFault | None:
    """A name in the file of `target` that the installed tools do not know; those in edgetune's own files are tested."""
    if not isinstance(target, Target) or is_shipped(target):
        return None
    if why := emulator_fault(target.emulator):
        return KeyFault("emulator", why)
    try:
        check_stack()
    except StackMismatch:
        return None  # there is no LLVM to ask; whatever needs it says what repairs it
    from edgetune.schedule.sketches.llvm_names import llvm_fault

    return llvm_fault(target)


def addressed_transports() -> list[str]:
    """Return the names that `rpc` may have: transports to boards with an address."""
    return [name for name in TRANSPORTS.names() if not TRANSPORTS.get(name, ConfigError).without_address]


def _transport(rpc: str | None, target: BoardKind) -> Transport:
    """The transport that `rpc` of an address names, or else the usual one of the target's backend."""
    return TRANSPORTS.get(rpc or backend_of(target).transport, ConfigError)


def _conflict(transport: Transport, address: BoardEntry, target: BoardKind) -> KeyFault | None:
    """Return a key of `address` that is wrong on a board of `target`; None where there is none."""
    if transport.serves(target):
        return transport.conflict(address, target)
    return KeyFault("rpc", f"is '{address.rpc}', which times no candidates of '{target.name}': leave it out")


def own_transport(target: BoardKind) -> Transport | None:
    """Return the transport of a target whose boards need no address; None for any other target."""
    return None if target.addressable else TRANSPORTS.get(target.reach, ConfigError)


def load_board(name: str, *, ask: bool = False) -> ResolvedBoard:
    """Return the meaning of ``--board name``; raises what `config.boards_file.load_board` raises.

    With `ask`, the names in a user's own target file are checked as well; LLVM is loaded for that.
    """
    return boards_file.load_board(name, ASKING_RULES if ask else RULES)


def list_addresses() -> list[BoardAddress]:
    """Return all boards of the user, by name, with the transport that each has; errors are those of `boards_file`."""
    found = boards_file.list_addresses(RULES)
    usual = {name: backend_of(target_files.load_board_kind(name)).transport for name in {each.target for each in found}}
    return [each.model_copy(update={"rpc": each.rpc or usual[each.target]}) for each in found]


def list_targets() -> list[BoardKind]:
    """Return all targets, ``host`` first; raises ConfigError with file and line."""
    return target_files.list_targets(RULES.target_fault)


def only_address(name: str) -> BoardAddress:
    """Return the only address of the board ``name``; raises UsageError for none or several."""
    return boards_file.only_address(load_board(name), name, RULES)


def add_board(values: Mapping[str, object]) -> Path:
    """Add a board to the user's file; raises what `config.boards_add.add_board` raises."""
    return boards_add.add_board(values, RULES)


def diagnose(environment: Mapping[str, str], folder: Path, board: str | None = None) -> list[Finding]:
    """Return the findings of ``edgetune doctor``; arguments and errors are those of `config.doctor.diagnose`."""
    return doctor.diagnose(environment, folder, board, ASKING_RULES, start_words)


def check(resolved: ResolvedBoard) -> Iterator[Finding]:
    """Yield the findings of ``edgetune boards check``."""
    target = resolved.target
    return boards_check.check(target, accesses(resolved), start_words, timed=not untimed(target))


def resolve_settings(
    flags: CommandLineFlags,
    environment: Mapping[str, str],
    folder: Path,
    look_at: Callable[[Path, StatedSizes, str], None] = lambda *_: None,
) -> Settings:
    """Resolve the settings of one run; arguments and errors are those of `config.settings.resolve_settings`."""
    return settings.resolve_settings(flags, environment, folder, look_at, ASKING_RULES)


def accesses(resolved: ResolvedBoard, rpc: str | None = None) -> tuple[BoardAccess, ...]:
    """Return how each of the boards is reached; none where the target needs an address and has none.

    `rpc` names another transport than the address does. Raises UsageError where that does not work with one of the
    boards, and ConfigError where the target or an address names a transport that is not installed.
    """
    target, own = resolved.target, own_transport(resolved.target)
    if own is None:
        return tuple(_by_address(target, address, rpc) for address in resolved.addresses)
    if rpc is None or rpc == backend_of(target).transport:
        return (BoardAccess(target, None, own, own),)
    if own.alone:
        raise UsageError(f"board '{target.name}' {own.alone}: leave out --rpc {rpc}")
    return (BoardAccess(target, None, TRANSPORTS.get(rpc), own),)


def _by_address(target: BoardKind, address: BoardAddress, rpc: str | None) -> BoardAccess:
    stated = _transport(address.rpc, target)
    if rpc is None or TRANSPORTS.get(rpc) is stated:
        return BoardAccess(target, address, stated, stated)
    if stated.lends(address):
        raise UsageError(
            f"board '{address.name}' is lent by a tracker, and its ssh host only reaches the tracker: leave out "
            f"--rpc {rpc}, or the same in EDGETUNE_RPC or edgetune.yaml"
        )
    transport = TRANSPORTS.get(rpc)
    fault = _conflict(transport, address.model_copy(update={"rpc": rpc}), target)
    if fault is not None and fault.key == "rpc":  # keys of the stated transport do no harm
        raise UsageError(f"board '{address.name}': {' '.join(fault)}")
    return BoardAccess(target, address, transport, transport)


def elsewhere(boards: Sequence[BoardAccess]) -> bool:
    """Whether packages run on these boards, and not on this machine."""
    return any(access.carrier.elsewhere for access in boards)


def measured_boards(settings: Settings) -> tuple[BoardAccess, ...]:
    """Return the boards of `settings` that a search measures on.

    Raises BoardUnavailable where no board has an address, UsageError where no time of the target reaches the trust
    that is requested, ToolchainMissing for all missing programs at once, and what `accesses` raises.
    """
    require_search(settings.target)
    require_measurable(settings.target, settings.addresses)
    require_trust(settings.target, settings.min_trust)
    boards = accesses(ResolvedBoard(settings.target, settings.addresses), settings.rpc)
    require_programs(program for access in boards for program in access.programs)
    return boards


def board_for_shell(name: str) -> BoardAccess:
    """Return the board ``name``, which is only one; raises UsageError for no address, or for several."""
    resolved = load_board(name)
    if own_transport(resolved.target) is None:
        boards_file.only_address(resolved, name, RULES)
    return accesses(resolved)[0]
