"""Settings of one run. Precedence: flag, environment, project file, user file, board, default."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from edgetune.config.boards_file import BoardAddress, ResolvedBoard, load_board
from edgetune.config.database_location import Branch, DatabaseLocation, DatabaseUrl, as_location, database_location
from edgetune.config.environment import VARIABLE_NAMES, read_environment
from edgetune.config.input_stream import InputStream
from edgetune.config.naming import package_name, package_version, require_package_name
from edgetune.config.project import PROJECT_FILE, USER_FILE, ProjectFile, UserFile
from edgetune.config.setting_sources import FLAG_NAMES, Layer, of_flags, of_preferences, of_project, of_user
from edgetune.config.transport_rules import ANY_TRANSPORT, TransportRules
from edgetune.errors import ConfigError, UsageError
from edgetune.resources import user_dir
from edgetune.target.board_kind import BoardKind
from edgetune.target.preferences import Grade, Io, Layout, Precision, Rpc, Winograd
from edgetune.yaml_reader.checked import check_document
from edgetune.yaml_reader.source import YamlDocument, load_yaml

if TYPE_CHECKING:
    from _typeshed import StrPath


DEFAULT_SECONDS = 1800.0
DEFAULT_DB = Path(".edgetune") / "records.db"
DEFAULT_FLAVOURS = ("make", "cmake")


@dataclass(frozen=True)
class StatedSizes:
    """What is stated of a model's open axes: shapes by input, and sizes by the names of axes."""

    shapes: Mapping[str, tuple[int, ...]]
    dims: Mapping[str, int]


@dataclass(frozen=True)
class CommandLineFlags:
    """Values of the command line; None (or empty) for a flag that was not given. Paths may be given as text."""

    model: Path | None = None
    board: str | None = None
    trials: int | None = None
    seconds: float | None = None
    objective: str | None = None
    seed: int | None = None
    threads: int | None = None
    db: DatabaseLocation | None = None
    out: Path | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    layout: Layout | None = None
    precision: Precision | None = None
    keep_constant_channels: bool | None = None
    io: Io | None = None
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)
    streams: Mapping[str, InputStream] = field(default_factory=dict)
    rpc: Rpc | None = None
    min_trust: Grade | None = None
    flavours: tuple[str, ...] = ()
    package_version: str | None = None
    name: str | None = None
    ram: int | None = None
    flash: int | None = None

    def __post_init__(self) -> None:
        _convert_paths(self)
        require_package_name(self.name)


@dataclass(frozen=True)
class Settings:
    """All settings of ``tune`` and ``build``, validated; paths are absolute. Paths may be given as text.

    Exactly one of ``budget_trials`` (candidates over all tasks) and ``budget_seconds`` is set. ``ram_limit`` and
    ``flash_limit`` are bytes. ``shapes`` maps input names to fixed shapes, ``dims`` names of
    axes to sizes. ``origins`` says for each field where its
    value came from, in words. ``addresses`` are the boards to measure on, none where the target needs no address;
    ``rpc`` is the transport to them, None to use each board's own setting. Times below ``min_trust`` are refused.
    ``winograd`` names the largest tiles of transformed convolutions, "off" for none. ``layout`` is the order of the
    axes of image inputs and outputs, ``layouts`` that of single inputs and outputs by name. ``states`` maps the
    inputs that the package keeps from run to run to the outputs that they become, ``streams`` the inputs that come
    frame by frame to their time axis and the frames of a step. ``flavours`` are the build systems that the package
    gets files for; make is added where it is not named. ``package_version`` is major, minor and patch.
    ``precision`` is that of weights and of tensors between layers. ``keep_constant_channels``: also channels that are
    one number for every input are computed. ``io`` says where inputs and outputs lie. ``branch`` is that of the records
    to read, None for all of them: a night states it, no source of settings does. ``ram_is_stated``: the limit is not
    that of the board alone, so kernels are chosen for it.
    """

    model: Path
    name: str
    target: BoardKind
    budget_trials: int | None
    budget_seconds: float | None
    objective: str
    ram_limit: int | None
    flash_limit: int | None
    seed: int
    threads: int
    db: DatabaseLocation
    out: Path
    shapes: Mapping[str, tuple[int, ...]]
    origins: Mapping[str, str]
    addresses: tuple[BoardAddress, ...] = ()
    rpc: Rpc | None = None
    min_trust: Grade = "D"
    winograd: Winograd = "f4"
    layout: Layout = "model"
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)
    streams: Mapping[str, InputStream] = field(default_factory=dict)
    flavours: tuple[str, ...] = DEFAULT_FLAVOURS
    package_version: tuple[int, int, int] = (1, 0, 0)
    precision: Precision = "fp32"
    keep_constant_channels: bool = False
    io: Io = "caller"
    branch: Branch | None = None
    ram_is_stated: bool = False

    def __post_init__(self) -> None:
        _convert_paths(self)

    @property
    def arena_bytes(self) -> int | None:
        """Bytes that tensors and scratch may take, where a person states RAM; that of a board is a limit alone."""
        sizes = (self.ram_limit, self.target.memory_sizes.get("ram"))
        return min((size for size in sizes if size is not None), default=None) if self.ram_is_stated else None

    @property
    def board(self) -> str:
        """Name of the board, or of the target where several boards or none have an address."""
        return self.addresses[0].name if len(self.addresses) == 1 else self.target.name


def _convert_paths(settings: CommandLineFlags | Settings) -> None:
    """Makes paths of what may be text; raises UsageError for a URL of no records database."""
    for name, convert in (("model", Path), ("out", Path), ("db", as_location)):
        given = getattr(settings, name)
        if given is not None:
            object.__setattr__(settings, name, convert(given))


_DEFAULTS: dict[str, object] = {
    "budget": (None, DEFAULT_SECONDS),
    "objective": "latency",
    "seed": 0,
    "threads": 1,
    "ram": None,
    "flash": None,
    "shapes": {},
    "dims": {},
    "layout": "model",
    "layouts": {},
    "states": {},
    "streams": {},
    "rpc": None,
    "min_trust": "D",
    "winograd": "f4",
    "flavours": DEFAULT_FLAVOURS,
    "package_version": "1.0.0",
    "precision": "fp32",
    "keep_constant_channels": False,
    "io": "caller",
}


def resolve_settings(
    flags: CommandLineFlags,
    environment: Mapping[str, str],
    folder: StrPath,
    look_at: Callable[[Path, StatedSizes, str], None] = lambda *_: None,
    rules: TransportRules = ANY_TRANSPORT,
) -> Settings:
    """Resolve the settings of one run in ``folder``; only this function decides precedence.

    The model is resolved before the board, so that ``look_at`` refuses a file that is not a model at once: it gets the
    path, the stated sizes, and the origin of the path in words. ``rules`` are those of the installed transports.
    Raises ConfigError (a file or variable is wrong), UsageError (no source names a model or board), UnknownBoard, and
    what ``look_at`` raises.
    """
    folder = Path(folder).resolve()
    project_document = _optional(folder / PROJECT_FILE)
    project = check_document(ProjectFile, project_document) if project_document else None
    layers = [
        Layer(of_flags(flags), lambda key: f"flag {FLAG_NAMES[key]}"),
        Layer(read_environment(environment), lambda key: f"environment {VARIABLE_NAMES[key]}"),
    ]
    if project is not None and project_document is not None:
        layers.append(of_project(project, project_document, folder, flags.model))
    user_document = _optional(user_dir() / USER_FILE)
    if user_document is not None:
        layers.append(of_user(check_document(UserFile, user_document), user_document, folder))
    model, origin = _model(layers)
    look_at(model, StatedSizes(_by_name(layers, "shapes"), _by_name(layers, "dims")), origin)
    board = next((str(layer.values["board"]) for layer in layers if "board" in layer.values), None)
    if board is None:
        raise UsageError(_no_board(project))
    resolved = load_board(board, rules)
    stated = any("ram" in layer.values for layer in layers)
    layers.append(Layer(of_preferences(resolved.target.defaults), lambda _: f"board {resolved.target.name}"))
    layers.append(Layer(resolved.target.memory_sizes, lambda _: f"memory_map of board {resolved.target.name}"))
    layers.append(Layer(_DEFAULTS, lambda _: "default"))
    for layer in layers:
        _check_rpc(layer, rules)
    return replace(_settle(layers, resolved, folder), ram_is_stated=stated)


def _check_rpc(layer: Layer, rules: TransportRules) -> None:
    rpc = layer.values.get("rpc")
    if isinstance(rpc, str) and (fault := rules.rpc_fault(rpc)):
        raise ConfigError(f"{layer.origin('rpc')}: 'rpc' {fault}")


def resolve_db(flag: DatabaseLocation | None, environment: Mapping[str, str], folder: StrPath) -> DatabaseLocation:
    """Resolve only the records database, for commands that need neither model nor board."""
    folder = Path(folder).resolve()
    if flag is not None:
        return folder / flag if isinstance(flag, Path) else flag
    if value := environment.get("EDGETUNE_DB"):
        read_environment({"EDGETUNE_DB": value})
        return database_location(value, folder)
    project, user = _optional(folder / PROJECT_FILE), _optional(user_dir() / USER_FILE)
    stated = check_document(ProjectFile, project).db if project else None
    stated = stated or (check_document(UserFile, user).db if user else None)
    return database_location(stated, folder) if stated else folder / DEFAULT_DB


def _model(layers: list[Layer]) -> tuple[Path, str]:
    """Return the path of the model, and where it was given."""
    stated = next((layer for layer in layers if "model" in layer.values), None)
    if stated is None:
        raise UsageError(
            "no model is given: name one (`edgetune tune model.onnx --board host`) or write an edgetune.yaml with "
            "`edgetune init model.onnx`",
        )
    path = stated.values["model"]
    assert isinstance(path, Path)  # noqa: S101 (each layer converts it)
    return path, stated.origin("model")


def _settle(layers: list[Layer], board: ResolvedBoard, folder: Path) -> Settings:
    target = board.target
    values: dict[str, object] = {}
    origins: dict[str, str] = {}
    for layer in reversed(layers):
        for key, value in layer.values.items():
            values[key] = value
            origins[key] = layer.origin(key)
    model = values.get("model")
    assert isinstance(model, Path)  # noqa: S101 (it was checked)
    name = str(values.get("name") or package_name(model.stem))
    origins.setdefault("name", "the model's file name")
    trials, seconds = _pair(values["budget"])
    out, db = values.get("out"), values.get("db")
    origins.setdefault("out", "default")
    origins.setdefault("db", "default")
    return Settings(
        model=model,
        name=name,
        target=target,
        budget_trials=trials,
        budget_seconds=seconds,
        objective=str(values["objective"]),
        ram_limit=_whole(values["ram"]),
        flash_limit=_whole(values["flash"]),
        seed=_whole(values["seed"]) or 0,
        threads=_whole(values["threads"]) or 1,
        db=db if isinstance(db, Path | DatabaseUrl) else folder / DEFAULT_DB,
        out=out if isinstance(out, Path) else folder / "build" / f"{name}-{target.name}",
        shapes=_by_name(layers, "shapes"),
        dims=_by_name(layers, "dims"),
        origins=origins,
        addresses=board.addresses,
        rpc=None if values["rpc"] is None else str(values["rpc"]),
        min_trust=next((grade for grade in get_args(Grade) if grade == values["min_trust"]), "D"),
        winograd=next((tile for tile in get_args(Winograd) if tile == values["winograd"]), "f4"),
        layout=next((layout for layout in get_args(Layout) if layout == values["layout"]), "model"),
        layouts=_by_name(layers, "layouts"),
        states=_by_name(layers, "states"),
        streams=_by_name(layers, "streams"),
        flavours=_names(values["flavours"]),
        package_version=package_version(str(values["package_version"])),
        precision=next((one for one in get_args(Precision) if one == values["precision"]), "fp32"),
        keep_constant_channels=bool(values["keep_constant_channels"]),
        io=next((io for io in get_args(Io) if io == values["io"]), "caller"),
    )


def _by_name(layers: list[Layer], key: str) -> dict[str, Any]:
    """Merge the settings of single tensors from all sources; a flag overrides only the tensors that it names."""
    merged: dict[str, Any] = {}
    for layer in reversed(layers):
        stated = layer.values.get(key)
        merged |= stated if isinstance(stated, dict) else {}
    return merged


def _pair(value: object) -> tuple[int | None, float | None]:
    trials, seconds = value if isinstance(value, tuple) else (None, DEFAULT_SECONDS)
    return trials, seconds


def _names(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, tuple) else ()


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _optional(path: Path) -> YamlDocument | None:
    return load_yaml(path) if path.exists() else None


def _no_board(project: ProjectFile | None) -> str:
    if project is not None and project.boards:
        return f"no board is given: use --board with one of {', '.join(project.boards)}"
    return "no board is given: name one, such as --board host (`edgetune boards list` shows all)"
