"""Sources of settings: flags, the files of the project and of the user, and a board's own preferences, by key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.config.database_location import DatabaseLocation, database_location
from edgetune.config.project import ProjectFile, UserFile
from edgetune.config.state_setting import with_files_in
from edgetune.errors import UsageError
from edgetune.target.preferences import Preferences
from edgetune.yaml_reader.source import YamlDocument

if TYPE_CHECKING:
    from edgetune.config.settings import CommandLineFlags


@dataclass(frozen=True)
class Layer:
    """One source of settings: its values, and a function that names the origin of a setting."""

    values: Mapping[str, object]
    origin: Callable[[str], str]


FLAG_NAMES = {
    "model": "MODEL",
    "board": "--board",
    "budget": "--trials/--time",
    "objective": "--objective",
    "seed": "--seed",
    "threads": "--threads",
    "db": "--db",
    "out": "--out",
    "shapes": "--shape",
    "dims": "--dim",
    "layout": "--layout",
    "layouts": "--layout",
    "states": "--state",
    "streams": "--stream",
    "rpc": "--rpc",
    "min_trust": "--min-trust",
    "flavours": "--flavour",
    "package_version": "--package-version",
    "name": "--name",
    "precision": "--precision",
    "keep_constant_channels": "--keep-constant-channels",
    "io": "--io",
    "ram": "--ram",
    "flash": "--flash",
}


def _under(folder: Path, location: DatabaseLocation | None) -> DatabaseLocation | None:
    return folder / location if isinstance(location, Path) else location


def of_flags(flags: CommandLineFlags) -> dict[str, object]:
    """What the command line says; paths are absolute. Raises UsageError for flags that exclude each other."""
    here = Path.cwd()
    if flags.trials is not None and flags.seconds is not None:
        raise UsageError("--trials and --time exclude each other: give one of them")
    values: dict[str, object] = {
        "model": here / flags.model if flags.model else None,
        "board": flags.board,
        "budget": None if flags.trials is flags.seconds is None else (flags.trials, flags.seconds),
        "objective": flags.objective,
        "seed": flags.seed,
        "threads": flags.threads,
        "db": _under(here, flags.db),
        "out": here / flags.out if flags.out else None,
        "shapes": dict(flags.shapes) or None,
        "dims": dict(flags.dims) or None,
        "layout": flags.layout,
        "layouts": dict(flags.layouts) or None,
        "states": with_files_in(here, flags.states) or None,
        "streams": dict(flags.streams) or None,
        "rpc": flags.rpc,
        "min_trust": flags.min_trust,
        "flavours": flags.flavours or None,
        "package_version": flags.package_version,
        "name": flags.name,
        "precision": flags.precision,
        "keep_constant_channels": flags.keep_constant_channels,
        "io": flags.io,
        "ram": flags.ram,
        "flash": flags.flash,
    }
    return _stated(values)


def of_project(project: ProjectFile, document: YamlDocument, folder: Path, model: Path | None) -> Layer:
    """What the project file in `folder` says; `model` is the one that was given as a flag, if any."""
    values = of_preferences(project)
    own = folder / Path(project.model).expanduser()
    if model is None or (Path.cwd() / model).resolve() == own.resolve():
        # Name, version, shapes, layouts, states and streams belong to the model that the file names, not to another one
        # that a flag names.
        values["model"] = own
        values |= _stated(
            {
                "shapes": project.shapes or None,
                "dims": project.dims or None,
                "layouts": project.layouts or None,
                "states": with_files_in(folder, project.state) or None,
                "streams": {name: entry.stream for name, entry in project.stream.items()} or None,
                "name": project.name,
                "package_version": project.package_version,
            }
        )
    if project.boards is not None and len(project.boards) == 1:
        values["board"] = project.boards[0]
    if project.db is not None:
        values["db"] = database_location(project.db, folder)
    return Layer(values, _file_origin(document))


def of_user(user: UserFile, document: YamlDocument, folder: Path) -> Layer:
    """What the user's own file says; a records database is relative to `folder`."""
    values = of_preferences(user)
    if user.board is not None:
        values["board"] = user.board
    if user.db is not None:
        values["db"] = database_location(user.db, folder)
    return Layer(values, _file_origin(document))


def of_preferences(stated: Preferences) -> dict[str, object]:
    """What a board and both files can say."""
    plain = ("objective", "seed", "threads", "layout", "io", "rpc", "min_trust", "flavours")
    values: dict[str, object] = {key: getattr(stated, key) for key in plain}
    if stated.budget is not None:
        values["budget"] = (stated.budget.trials, stated.budget.time)
    if stated.memory is not None:
        values |= {"ram": stated.memory.ram, "flash": stated.memory.flash}
    if stated.accuracy is not None:
        values["winograd"] = stated.accuracy.winograd
    return _stated(values)


def _stated(values: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in values.items() if value is not None}


_FILE_KEYS: dict[str, tuple[str, ...]] = {
    "ram": ("memory", "ram"),
    "flash": ("memory", "flash"),
    "winograd": ("accuracy", "winograd"),
    "board": ("boards",),
    "states": ("state",),
    "streams": ("stream",),
}


def _file_origin(document: YamlDocument) -> Callable[[str], str]:
    return lambda key: f"{document.path}, line {document.line(_FILE_KEYS.get(key, (key,)))}"
