"""Cells of a farm: a model with its settings on one board. A cell is the same from night to night."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from edgetune.config.boards_file import ResolvedBoard, require_measurable
from edgetune.errors import BoardUnavailable, ConfigError, UnknownBoard
from edgetune.farm.cell_settings import CellSettings
from edgetune.farm.farm_file import Farm
from edgetune.pipeline.backends import require_search
from edgetune.pipeline.boards import accesses, elsewhere, list_addresses, load_board
from edgetune.target.board_kind import BoardKind
from edgetune.yaml_reader.nearest import nearest
from edgetune.yaml_reader.source import Location


@dataclass(frozen=True)
class Cell:
    """A model of the farm on one board.

    `kind` is the board's target, or the first one of the farm that says the same under another name. The first cell of
    each model and kind `searches`; its twins build from its records. `settings` is a digest of what the model's entry
    says beside its file and boards: with other settings, nothing that was accepted before is comparable. `begun_with`
    is what its night began with, None outside a night, and in nights of earlier versions.
    """

    model: str
    board: str
    kind: str
    searches: bool
    settings: str
    begun_with: CellSettings | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """Model and board, which no other cell of the farm has."""
        return f"{self.model}@{self.board}"

    @property
    def here(self) -> bool:
        """Whether its board is the very host that runs it."""
        resolved = load_board(self.board)
        return not resolved.target.emulated and not elsewhere(accesses(resolved))

    def place(self, host: str) -> str:
        """Name of its board among several hosts: on each host another one where the board is the host itself."""
        return f"{self.board}@{host}" if self.here else self.board


def cells_of(farm: Farm) -> list[Cell]:
    """Return the cells of a farm: models in their order, and the boards of each in theirs.

    Raises ConfigError with file and line for a board that is unknown, cannot be measured or is named twice.
    """
    content = farm.content
    kinds: dict[str, str] = {}
    common = list(_boards(farm, content.boards or (), ("boards",), kinds))
    common += [found for found in _tagged(farm, kinds) if found not in common]
    cells: list[Cell] = []
    for name, model in content.models.items():
        own = common if model.boards is None else list(_boards(farm, model.boards, ("models", name, "boards"), kinds))
        digest = _digest(model.model_dump(mode="json", exclude={"file", "boards"}))
        searched: set[str] = set()
        for board, kind in own:
            cells.append(Cell(name, board, kind, kind not in searched, digest))
            searched.add(kind)
    return cells


def _boards(farm: Farm, names: tuple[str, ...], location: Location, kinds: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Names and kinds of the boards behind `names`, each once; `kinds` are the names of known kinds by their facts."""
    seen: dict[str, str] = {}
    for index, name in enumerate(names):
        where: Location = (*location, index)
        resolved = _measurable(farm, name, where)
        kind = kinds.setdefault(_facts(resolved.target), resolved.target.name)
        for board in [address.name for address in resolved.addresses] or [resolved.target.name]:
            if board in seen:
                raise farm.document.error(
                    where, f"'{name}' means board '{board}', as '{seen[board]}' does: name each board once"
                )
            seen[board] = name
            yield board, kind


def _tagged(farm: Farm, kinds: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Names and kinds of the boards that have all tags of `places`, by name."""
    if farm.content.places is None:
        return
    addresses = list_addresses()
    known = {tag for address in addresses for tag in address.tags}
    for index, tag in enumerate(farm.content.places.tags):
        if tag not in known:
            said = nearest(tag, known) if known else "boards.yaml has no tags"
            raise farm.document.error(("places", "tags", index), f"no board has the tag '{tag}': {said}")
    wanted = set(farm.content.places.tags)
    found = [address.name for address in addresses if wanted <= set(address.tags)]
    if not found:
        raise farm.document.error(("places", "tags"), f"no board has all of the tags {', '.join(sorted(wanted))}")
    for name in found:
        target = _measurable(farm, name, ("places", "tags")).target
        yield name, kinds.setdefault(_facts(target), target.name)


def _measurable(farm: Farm, name: str, where: Location) -> ResolvedBoard:
    """The meaning of a board's name; raises ConfigError with file and line where it is unknown or cannot be tuned."""
    try:
        resolved = load_board(name)
        require_search(resolved.target)
        require_measurable(resolved.target, resolved.addresses)
    except (UnknownBoard, BoardUnavailable, ConfigError) as error:
        raise farm.document.error(where, error.message) from error
    return resolved


def _facts(target: BoardKind) -> str:
    """All that a target says, except how it is called, and what only estimates need."""
    return json.dumps(target.model_dump(mode="json", exclude={"name", "description", "clock_mhz"}), sort_keys=True)


def _digest(values: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]
