"""Common options: flags that several verbs share, and the parsers of their values."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from edgetune.cli.output import Output
from edgetune.cli.stream_options import STREAMS, streams_by_name
from edgetune.config.database_location import DatabaseLocation, DatabaseUrl, checked_location
from edgetune.config.naming import checked_package_name, package_version
from edgetune.resources import targets_dir, user_dir
from edgetune.yaml_reader.quantities import MOST_THREADS, parse_bytes, parse_seconds

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from edgetune.config.input_stream import InputStream
    from edgetune.config.settings import Settings, StatedSizes
    from edgetune.frontend.model_format import Model
    from edgetune.target.preferences import Layout

F = TypeVar("F", bound=Callable[..., Any])
PRECISIONS = ("fp32", "fp16", "bf16")
"""Those that the backend of some board has; each board refuses what it lacks."""

COLD = click.option(
    "--cold",
    is_flag=True,
    help="Flush the L2 cache before each timed launch; such times are kept apart from warm ones.",
)
"""For times of a GPU."""


class Duration(click.ParamType[float]):
    """A time such as ``30m``; the value is in seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse ``value``; a number without a unit is in seconds."""
        try:
            return parse_seconds(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Size(click.ParamType[int]):
    """A size such as ``64KiB``; the value is in bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse ``value``; a number without a unit is in bytes."""
        try:
            return parse_bytes(int(value) if str(value).isascii() and str(value).isdigit() else value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class InputShape(click.ParamType[tuple[str, tuple[int, ...]]]):
    """A fixed shape of an input such as ``name=1,3,224,224``; the value is a pair of name and shape.

    A scalar has no sizes: ``name=``. An axis may be empty, as the cache of a decoder is at first: ``cache=1,0,8``.
    """

    name = "name=dims"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[int, ...]]:
        """Parse ``value``; the last equals sign separates, because names may contain one."""
        if isinstance(value, tuple):
            return value
        name, _, dims = str(value).rpartition("=")
        parts = [part.strip() for part in dims.split(",")] if dims.strip() else []
        if not name or not all(part.isascii() and part.isdigit() and _is_size(part) for part in parts):
            self.fail(f"must look like input=1,3,224,224 with sizes from 0 to 2147483647, not {value!r}", param, ctx)
        return name, tuple(int(part.lstrip("0") or "0") for part in parts)


class AxisSize(click.ParamType[tuple[str, int]]):
    """The size of an open axis such as ``tokens=128``; the value is a pair of name and size."""

    name = "name=n"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Parse ``value``; the last equals sign separates, because names may contain one."""
        if isinstance(value, tuple):
            return value
        name, _, size = (part.strip() for part in str(value).rpartition("="))
        if not name or not size.isascii() or not size.isdigit() or not _is_size(size):
            self.fail(f"must look like tokens=128 with a size from 0 to 2147483647, not {value!r}", param, ctx)
        return name, int(size.lstrip("0") or "0")


def _is_size(digits: str) -> bool:
    """Whether digits are below 2^31; Python refuses to read thousands of them."""
    short = digits.lstrip("0")
    return len(short) <= len(str(2**31)) and int(short or "0") < 2**31


class TensorLayout(click.ParamType[tuple[str, str]]):
    """Order of axes at the interface, such as ``channels_last`` or ``image=model``; the value is name and layout."""

    name = "[name=]layout"
    layouts = ("model", "channels_last")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Parse ``value``; without a name the name is "". The last equals sign separates, as names may contain one."""
        if isinstance(value, tuple):
            return value
        name, equals, layout = str(value).rpartition("=")
        if layout not in self.layouts or (equals and not name):
            self.fail(f"must be {' or '.join(self.layouts)}, or NAME= and one of them, not {value!r}", param, ctx)
        return name, layout


class DeclaredState(click.ParamType[tuple[str, str]]):
    """An input and the output that it becomes in the next run, such as ``h0=hn``; the value is the pair."""

    name = "in=out"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Parse ``value``; the last equals sign separates, because names may contain one."""
        if isinstance(value, tuple):
            return value
        name_in, _, name_out = str(value).rpartition("=")
        if not name_in or not name_out:
            self.fail(f"must look like h0=hn, an input and the output that it becomes, not {value!r}", param, ctx)
        return name_in, name_out


class DatabaseOption(click.ParamType[DatabaseLocation]):
    """The path of a records database, or the URL of one on a PostgreSQL server."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> DatabaseLocation:
        """Refuse the URL of any other server, and a password in a URL."""
        try:
            return value if isinstance(value, Path | DatabaseUrl) else _location(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Complete the names of files."""
        return click.Path().shell_complete(ctx, param, incomplete)


def _location(text: str) -> DatabaseLocation:
    """As `database_location`, but a path stays as it was typed."""
    checked = checked_location(text)
    return DatabaseUrl(checked) if "://" in checked else Path(checked)


class PackageName(click.ParamType[str]):
    """The name of a package, which is the prefix of its C symbols and files."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse what cannot be a prefix as it stands."""
        try:
            return checked_package_name(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class PackageVersion(click.ParamType[str]):
    """The version of a package, such as ``1.0.0``."""

    name = "x.y.z"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse anything but three numbers."""
        try:
            package_version(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)


class CoreList(click.ParamType[tuple[int, ...]]):
    """Cores such as ``2,3``; the value is their numbers."""

    name = "cores"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Read ``value``."""
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        if not all(part.isascii() and part.isdigit() and len(part) <= 4 for part in parts):  # noqa: PLR2004 (< 10000)
            self.fail(f"must be numbers of cores such as 3 or 2,3, not {value!r}", param, ctx)
        return tuple(int(part) for part in parts)


class BoardName(click.ParamType[str]):
    """The name of a target, or the path of its YAML file; with `addresses`, the name of a board too."""

    name = "board"

    def __init__(self, *, addresses: bool) -> None:
        self._addresses = addresses

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the boards that begin with ``incomplete``."""
        from click.shell_completion import CompletionItem

        from edgetune.errors import ConfigError

        del ctx, param
        folders = (targets_dir(), user_dir() / "targets")
        names = {path.stem for folder in folders for path in folder.glob("*.yaml")}
        if self._addresses:
            from edgetune.pipeline.boards import list_addresses

            with contextlib.suppress(ConfigError):  # the verb itself says what is wrong with the file
                names |= {address.name for address in list_addresses()}
        return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


class TransportName(click.ParamType[str]):
    """The name of a transport to boards with an address."""

    name = "transport"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse a name that no installed transport has."""
        from edgetune.pipeline.boards import RULES

        if fault := RULES.rpc_fault(str(value)):
            self.fail(fault, param, ctx)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the transports that begin with ``incomplete``."""
        from click.shell_completion import CompletionItem

        from edgetune.pipeline.boards import addressed_transports

        del ctx, param
        return [CompletionItem(name) for name in addressed_transports() if name.startswith(incomplete)]


NAME = click.option(
    "--name",
    type=PackageName(),
    help="Name of the package, and prefix of its C symbols and files (default: made from the model's file name).",
)
BOARD = BoardName(addresses=True)
TARGET = BoardName(addresses=False)


def model_and_board(function: F) -> F:
    """Add the flags that ``tune`` and ``build`` have in common to a verb."""
    for decorate in reversed(
        (
            click.argument("model", required=False, type=click.Path(path_type=Path)),
            click.option("--board", type=BOARD, help="Board or target: a name from `edgetune boards list`."),
            click.option("--db", type=DatabaseOption(), help="Records database (default: .edgetune/records.db)."),
            click.option(
                "-o",
                "--out",
                type=click.Path(path_type=Path),
                help="Folder of the package (default: build/NAME-TARGET).",
            ),
            click.option(
                "--shape",
                "shapes",
                type=InputShape(),
                multiple=True,
                help="Set the shape of an input; may be repeated.",
            ),
            click.option(
                "--dim",
                "dims",
                type=AxisSize(),
                multiple=True,
                help="Set the size of an axis that the model names and leaves open; may be repeated.",
            ),
            click.option(
                "--layout",
                "layouts",
                type=TensorLayout(),
                multiple=True,
                help=(
                    "Order of the axes of image inputs and outputs: model (default) or channels_last; NAME=... "
                    "for a single one."
                ),
            ),
            click.option(
                "--io",
                type=click.Choice(("caller", "arena")),
                help=(
                    "Where inputs and outputs lie: in memory of the caller (default), or in the arena, which takes "
                    "less RAM in all."
                ),
            ),
            click.option(
                "--state",
                "states",
                type=DeclaredState(),
                multiple=True,
                help="Keep an output as this input of the next run; OUT:FIRST.npy begins it. May be repeated.",
            ),
            STREAMS,
            click.option(
                "--threads",
                type=click.IntRange(1, MOST_THREADS),
                help="Most threads that a run of the package may use (default: 1).",
            ),
            click.option(
                "--flavour",
                "flavours",
                multiple=True,
                metavar="NAME",
                help="Build system that the package gets files for beside make (cmake); may be repeated.",
            ),
            click.option(
                "--precision",
                type=click.Choice(PRECISIONS),
                help="Type of weights and of tensors between layers, where the board has it (default: fp32).",
            ),
            click.option(
                "--keep-constant-channels",
                is_flag=True,
                default=None,
                help="Compute channels of integers that are one number for every input; by default they are left out.",
            ),
            click.option(
                "--ram",
                type=Size(),
                help="Most bytes of the workspace, as 64KiB: of all kernels that fit, the fastest ones are chosen.",
            ),
            click.option(
                "--flash",
                type=Size(),
                help="Most bytes of weights and code: forms of kernels with smaller weights are chosen where they do "
                "not fit.",
            ),
            NAME,
            click.option("--package-version", type=PackageVersion(), help="Version of the package (default: 1.0.0)."),
        )
    ):
        function = decorate(function)
    return function


def sizes_by_name(
    shapes: tuple[tuple[str, tuple[int, ...]], ...], dims: tuple[tuple[str, int], ...]
) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
    """The values of `--shape` and `--dim` by name; raises UsageError for one that is given twice."""
    named = dict(shapes)
    if len(named) < len(shapes):
        raise click.UsageError("--shape names the same input twice")
    sizes = dict(dims)
    if len(sizes) < len(dims):
        raise click.UsageError("--dim names the same axis twice")
    return named, sizes


def settings_of(
    model: Path | None,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    dims: tuple[tuple[str, int], ...],
    layouts: tuple[tuple[str, Layout], ...],
    states: tuple[tuple[str, str], ...],
    streams: tuple[tuple[str, InputStream], ...],
    **flags: Any,
) -> tuple[Settings, Model]:
    """Resolve the settings of a run from its flags, the environment and the files of the working folder.

    The model is read before the board is resolved, and returned with the settings.
    """
    import os

    from edgetune.config.settings import CommandLineFlags
    from edgetune.pipeline.boards import resolve_settings

    named, sizes = sizes_by_name(shapes, dims)
    ordered = dict(layouts)
    if len(ordered) < len(layouts):
        raise click.UsageError("--layout names the same tensor twice, or the order of all images")
    layout = ordered.pop("", None)
    kept = dict(states)
    if len(kept) < len(states):
        raise click.UsageError("--state names the same input twice")
    stated = CommandLineFlags(
        model=model,
        shapes=named,
        dims=sizes,
        layout=layout,
        layouts=ordered,
        states=kept,
        streams=streams_by_name(streams),
        **flags,
    )
    found: list[Model] = []

    def read(path: Path, sizes: StatedSizes, origin: str) -> None:
        from edgetune.pipeline.model_formats import read_model

        found.append(read_model(path, sizes.shapes, origin, sizes.dims))

    settings = resolve_settings(stated, os.environ, Path.cwd(), read)
    return settings, found[0]


def show_origins(output: Output, settings: Settings) -> None:
    """With ``-v``, print the origin of each setting."""
    if output.verbosity > 0:
        for key, origin in sorted(settings.origins.items()):
            output.note(f"{key}: {origin}")
