"""Board behind TVM's RPC server: leases a server, measures through a session, recovers the board when it is lost.

It also compiles the module that a session loads on the server to try candidates (templates/agent/tvm_shim.c).
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from edgetune.boards.environment import Reading, read_environment
from edgetune.boards.lock import LOCK_TIMEOUT_S
from edgetune.boards.protocol import RunRequest, RunResult
from edgetune.boards.round_trip import COMMAND, STEPS, allowed_s
from edgetune.boards.tvm_rpc.lease import ServerLender
from edgetune.boards.tvm_rpc.messages import Bring, Connect, Connected, Disconnect, Files, Read, Try
from edgetune.boards.tvm_rpc.worker_process import RpcWorker
from edgetune.errors import BoardBusy, BoardLost, BoardUnavailable, ToolchainMissing
from edgetune.events import Event
from edgetune.resources import templates_dir
from edgetune.target.target import Target
from edgetune.target.tool_process import run_tool

SHIM = "agent/tvm_shim.c"
_TIMEOUT_S = 60


def build_shim(target: Target, folder: Path) -> Path:
    """Compile the shim for `target` into `folder`, unless it is there; raises ToolchainMissing if that fails.

    It is linked without libraries, so that it requires no version of a libc: the server's process has one.
    """
    compiler, library = target.compiler, folder / f"tvm_shim_{target.name}.so"
    if library.exists():  # a sibling board made it
        return library
    source = templates_dir() / SHIM
    command = [compiler.cc, *compiler.cflags, "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-shared"]
    command += [f"-I{source.parent}", "-nodefaultlibs", "-o", str(library), str(source), "-lgcc"]
    try:
        run_tool(command, timeout_s=_TIMEOUT_S, check=True)
    except FileNotFoundError as error:
        install = f": sudo apt-get install {compiler.package}" if compiler.package else ": put it on PATH"
        raise ToolchainMissing(
            f"{compiler.cc} (the C compiler of board '{target.name}') is not on PATH{install}"
        ) from error
    except subprocess.SubprocessError as error:
        words = str(getattr(error, "stderr", None) or error).strip()[-500:]
        raise ToolchainMissing(f"{compiler.cc} cannot compile {source.name}: {words}") from error
    return library


_SESSION_S = 900  # the server ends a session after this, in case its client is lost
_CONNECT_TIMEOUT_S = 60.0  # for a session with the server that was lent
_RENEW_S = 600  # a lease older than this is renewed between candidates
_FAIR_S = 60  # a lease older than this is given back between candidates when other clients wait
_PATIENCE_S = 30.0  # for transfers, after a candidate's own deadline, which the shim enforces
_READ_S = 10.0
_BRING_S, _SLOWEST_BYTES_S = 40.0, 100e3
_REPAIR_S = 120.0
_RECOVER_S = 30.0
_MOST_REPAIRS = 3
_PAUSES_S = (0.0, 1.0, 2.0)
_CPU = "/sys/devices/system/cpu/cpu*"
READINGS = (
    f"{_CPU}/cpufreq/scaling_*",
    f"{_CPU}/thermal_throttle/core_throttle_count",
    "/sys/class/thermal/thermal_zone*/temp",
    "/sys/class/hwmon/hwmon*/temp*_input",
    "/sys/devices/platform/soc/soc:firmware/get_throttled",
    "/proc/loadavg",
    "/proc/cpuinfo",
)
_ASKED = re.compile("|".join(re.escape(pattern).replace(r"\*", "[A-Za-z0-9_.]{0,40}") for pattern in READINGS))
_IDENTITY = {
    "model": "/proc/device-tree/model",
    "serial": "/proc/device-tree/serial-number",
    "machine_id": "/etc/machine-id",
}


class TvmRpcBoard:
    """A `Board`. `door` lends the server; `folder` takes the shim and the worker's logs, and outlives the board.

    Waiting for the lease takes at most `lock_timeout_s` seconds. `facts` are those of the server's system.
    """

    def __init__(
        self,
        name: str,
        target: Target,
        door: ServerLender,
        folder: Path,
        *,
        cores: Sequence[int] = (),
        lock_timeout_s: float = LOCK_TIMEOUT_S,
        on_event: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self.name, self._target, self._door, self._on_event = name, target, door, on_event
        self._asked_cores = tuple(cores)
        self._cores: tuple[int, ...] = (0,)  # cores of candidates; the session sets them
        self._lock_timeout_s = lock_timeout_s
        self._worker = RpcWorker(name, folder)
        self._shim = build_shim(target, folder)
        self.facts: dict[str, Reading] = {}
        self._since: float | None = None  # start of the session, None without one
        self._request: RunRequest | None = None
        self._deadline = 0.0
        self._patience = _PATIENCE_S
        self._limit_s = 0.0
        self._using = threading.RLock()
        self._closed = False

    @property
    def round_trip_s(self) -> float:
        """Latest round-trip time on the way to the server in seconds."""
        return self._door.round_trip_s

    def _allowed(self, least_s: float, trips: int = COMMAND) -> float:
        return allowed_s(least_s, self._door.round_trip_s, trips)

    def reserve(self) -> None:
        """Lease a server and open a session, unless there is a recent one."""
        with self._using:
            if self._since is not None and time.monotonic() - self._since > _RENEW_S:
                self._end_session()
            if self._since is None:
                self._connect(self._lock_timeout_s)

    def put(self, path: Path) -> str:
        """Send an array to the board, once per content; a library is sent with its candidate."""
        with self._using:
            if self._since is not None and self._request is None and path.suffix == ".npy":
                limit_s = self._allowed(_BRING_S) + path.stat().st_size / _SLOWEST_BYTES_S
                self._guard(lambda: self._worker.ask(Bring(path), limit_s))
        return str(path)

    def begin(self, request: RunRequest) -> None:
        """Send the candidate to the worker."""
        with self._using:
            if self._request is not None:
                raise ValueError(f"board '{self.name}' is busy")
            if self._since is None:
                raise BoardLost(f"board '{self.name}' has no session: reserve it first")
            self._limit_s = request.deadline_s + self._allowed(self._patience, STEPS)
            self._deadline = time.monotonic() + self._limit_s
            self._guard(lambda: self._worker.send(Try(request)))
            self._request = request

    def fileno(self) -> int:
        """Descriptor of the worker's answers."""
        return self._worker.fileno()

    def collect(self, timeout_s: float = 0.0) -> RunResult | None:
        """Return the result if it arrives within `timeout_s`; raises BoardLost when session or server are lost."""
        with self._using:
            if self._request is None:
                return None
            left = self._deadline - time.monotonic()
            answer = self._guard(lambda: self._worker.receive(max(0.0, min(timeout_s, left))))
            if answer is None and time.monotonic() >= self._deadline:
                self._lose()
                raise self._worker.late(self._limit_s)
            if answer is None:
                return None
            self._request = None
            if not isinstance(answer, RunResult):
                raise BoardLost(
                    f"the RPC client of board '{self.name}' gave an answer that does not belong to its request"
                )
            return answer

    def health(self) -> dict[str, Reading]:
        """Read the measuring core's state from /proc and /sys of the board."""
        with self._using:
            if self._since is None or self._request is not None:
                return {}
            files = self._guard(lambda: self._worker.ask(Read(READINGS), self._allowed(_READ_S)))
            return _readings(files, self._cores[-1])

    def recover(self) -> None:
        """Try a new session, then the lender's repairs of the server; raises BoardLost when nothing helps."""
        with self._using:
            self._lose()
            done, failure = "a new session", None
            for _ in range(1 + _MOST_REPAIRS):
                self._tell("rung", done)
                failure = self._attempt()
                if failure is None:
                    return
                if self._closed:
                    break
                try:
                    done = self._door.repair(_REPAIR_S)
                except BoardUnavailable as error:
                    failure, done = error, "another attempt"
                if not done:
                    break
            words = failure.message if failure is not None else ""
            raise BoardLost(f"board '{self.name}' does not come back: {words}") from failure

    def release(self) -> None:
        """Keep the session for the next candidate, unless other clients wait and the lease is old enough."""
        with self._using:
            old = self._since is not None and time.monotonic() - self._since > _FAIR_S
            if old and self._request is None and self._door.wanted():
                self._end_session()

    def close(self) -> None:
        """End the session and everything started for it; a call that hangs in another thread ends with BoardLost."""
        self._closed = True
        self._worker.interrupt()
        self._door.close()
        with self._using:
            self._worker.kill()
            self._since = self._request = None

    def _connect(self, timeout_s: float) -> None:
        if self._closed:
            raise BoardLost(f"board '{self.name}' is closed")
        lease = self._door.lease(timeout_s)
        message = Connect(lease.host, lease.port, lease.key, _SESSION_S, self._shim, self._asked_cores)
        wait_s = self._allowed(min(timeout_s, _CONNECT_TIMEOUT_S), STEPS)
        connected = self._guard(lambda: self._worker.ask(message, wait_s))
        if not isinstance(connected, Connected):
            raise BoardLost(f"the RPC client of board '{self.name}' gave an answer that does not belong to its request")
        self._since = time.monotonic()
        self.facts = {key: int(text) if text.isdecimal() else text for key, text in connected.facts.items() if text}
        files = self._guard(lambda: self._worker.ask(Read(tuple(_IDENTITY.values())), self._allowed(_READ_S)))
        told = files.contents if isinstance(files, Files) else {}
        self.facts |= {key: _line(told[path]) for key, path in _IDENTITY.items() if path in told}
        if lease.origin:
            self.facts["server"] = lease.origin
        self._cores = connected.cores
        self.facts["cores"] = ",".join(map(str, connected.cores))  # the same text as the agent's
        self.facts |= {"emulated": int(self._target.emulated), "clock": "time"}

    def _attempt(self) -> BoardUnavailable | None:
        """Connect, with a few retries for a server that is about to serve again; return the last failure."""
        failure: BoardUnavailable | None = None
        for pause_s in _PAUSES_S:
            time.sleep(pause_s)
            try:
                self._connect(_RECOVER_S)
            except BoardUnavailable as error:
                failure = error
                self._lose()
            else:
                return None
            if self._closed or isinstance(failure, BoardBusy):  # the lender has already waited
                break
        return failure

    def _end_session(self) -> None:
        self._since = None
        self._guard(lambda: self._worker.ask(Disconnect(), self._allowed(_READ_S)))
        self._door.give_back()

    def _lose(self) -> None:
        self._since = self._request = None
        self._worker.kill()
        self._door.give_back()

    def _guard(self, call: Callable[[], object]) -> object:
        """Call the worker; if the call fails, the session is over."""
        try:
            return call()
        except BoardUnavailable:
            self._lose()
            raise

    def _tell(self, what: str, detail: str) -> None:
        self._on_event(Event("board", {"board": self.name, "what": what, "detail": detail}))


def _readings(files: object, core: int) -> dict[str, Reading]:
    """Copy the board's files into a folder in the same layout, so that `read_environment` can read them."""
    if not isinstance(files, Files):
        return {}
    with tempfile.TemporaryDirectory(prefix="edgetune-readings-") as folder:
        root = Path(folder)
        for name, content in files.contents.items():
            if _ASKED.fullmatch(name):  # a board's answer must not name other paths
                path = root / name.lstrip("/")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        return read_environment(core, root)


def _line(content: bytes) -> str:
    text = content.replace(b"\0", b"").decode(errors="replace").strip()
    return "".join(letter for letter in text if letter.isprintable())[:200]
