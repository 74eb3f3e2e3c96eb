"""Notification: the command of `notify` in a farm file, run once after a night that changed something.

What was told of a cell is a row of the database: what stays slower is told again only after it was gone or accepted,
where it has grown by more than the limit, and where it has another cause.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import inspect, select, update

from edgetune.errors import ToolHung
from edgetune.farm.farm_file import Farm
from edgetune.farm.gate import COUNT_LIMIT, LAYER_LIMIT
from edgetune.farm.night_store import Night, NightCell, NightStore, Verdict
from edgetune.farm.night_tables import notifications
from edgetune.farm.worse import FACTS
from edgetune.ipc.process_group import program
from edgetune.records.database import Database
from edgetune.records.record import utc_now
from edgetune.records.schema import insert_unless_known

NIGHT_JSON = "EDGETUNE_NIGHT_JSON"
"""Environment variable of the command: the path of the night's `night.json`, "" where there is none."""

LIMIT_S = 60.0
_BEGUN = "it was begun, and edgetune ended before it did"
_MOST_OUTPUT = 10_000
_NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class CellChange:
    """A change of a cell: its causes (factors, or the class of an error), and how large each part of it is.

    A part is the whole, a layer or a fact that is exact. `amounts` are ratios to the accepted package, bytes or errors,
    and `limits` the shares by which they grow unseen. `told` is the ratio of the whole that was told before.
    """

    amounts: Mapping[str, float] = field(default_factory=dict)
    causes: frozenset[str] = frozenset()
    limits: Mapping[str, float] = field(default_factory=dict)
    told: float | None = None

    def is_news(self, told: CellChange) -> bool:
        """Whether it has grown since it was told, or has another cause. What was told without amounts does not grow."""
        grown = (
            amount > told.amounts.get(part, 1.0) * (1 + self.limits[part]) for part, amount in self.amounts.items()
        )
        return (bool(told.amounts) and any(grown)) or (bool(told.causes) and not self.causes <= told.causes)

    def after(self, told: CellChange | None) -> CellChange:
        """What is known to whoever was told of both."""
        if told is None:
            return self
        amounts = {part: max(amount, told.amounts.get(part, amount)) for part, amount in self.amounts.items()}
        return CellChange({**told.amounts, **amounts}, self.causes | told.causes, self.limits)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"amounts": dict(self.amounts), "causes": sorted(self.causes)}


CellChanges = Mapping[str, CellChange]
"""Changes of a cell, each by a word and the accepted package that it was found against."""


@dataclass(frozen=True)
class Notification:
    """The notification of one night: what it tells by cell, and why it was not delivered ("" where it was)."""

    told: Mapping[str, CellChanges]
    fault: str


def notifications_of(database: Database) -> Mapping[int, Notification]:
    """All notifications by the id of their night. Raises DatabaseError."""
    with database.reading() as connection:
        if not inspect(connection).has_table(notifications.name):
            return {}
        columns = notifications.c
        rows = connection.execute(select(columns.night_id, columns.told, columns.fault)).all()
    return {
        night: Notification({cell: _told(changes) for cell, changes in json.loads(told).items()}, fault)
        for night, told, fault in rows
    }


def _told(changes: Mapping[str, Any] | Sequence[str]) -> CellChanges:
    """Changes of a row; earlier versions wrote their words alone, and the verdict of that night says how large."""
    if not isinstance(changes, Mapping):
        return {word: CellChange() for word in changes}
    return {word: CellChange(one["amounts"], frozenset(one["causes"])) for word, one in changes.items()}


def changes_of(store: NightStore, night: Night) -> dict[str, CellChanges]:
    """What a night changed by cell, without what was told before and has stood since. Raises DatabaseError."""
    sent = notifications_of(store.database)
    told: dict[str, dict[str, CellChange]] = {}
    for other in store.nights(night.farm):
        if other.id >= night.id:
            break
        notification = sent.get(other.id)
        for row in store.cells(other):
            name = row.cell.name
            heard = told.get(name, {})
            if notification is not None and not notification.fault:
                found_then = _changes(row.verdict, other.limit) if row.verdict else {}
                for word, one in notification.told.get(name, {}).items():
                    known = one.amounts or one.causes
                    heard[word] = (one if known else found_then.get(word, one)).after(heard.get(word))
            told[name] = _standing(heard, row.verdict, other.limit)  # a rerun may have taken back what was told
    found: dict[str, CellChanges] = {}
    for row in store.cells(night):
        if row.verdict is None:
            continue
        stood = _standing(told.get(row.cell.name, {}), row.verdict, night.limit)
        changes = _changes(row.verdict, night.limit)
        new = {
            word: replace(one, told=stood[word].amounts.get("") if word in stood else None)
            for word, one in changes.items()
            if word not in stood or one.is_news(stood[word])
        }
        if new:
            found[row.cell.name] = new
    return found


def notify(farm: Farm, store: NightStore, night: Night, headline: str) -> str:
    """Tell what a finished night changed, once; return why the command failed, "" where it did not.

    Does nothing without `notify`, for a night that is not over, and for one that was told. Raises DatabaseError.
    """
    if farm.content.notify is None or night.finished_utc is None:
        return ""
    changes = changes_of(store, night)
    if not changes:
        return ""
    row = {
        "night_id": night.id,
        "told": json.dumps(
            {cell: {word: one.to_json() for word, one in found.items()} for cell, found in changes.items()},
            sort_keys=True,
        ),
        "fault": _BEGUN,
        "utc": utc_now(),
    }
    with store.database.writing() as connection:
        number = insert_unless_known(connection, notifications, row, "one_notification_per_night")
    if number is None:
        return notifications_of(store.database)[night.id].fault
    pages = farm.folder / "pages" / night.night
    lines = [f"{farm.name}, night of {night.night}: {headline}", *_lines(store.cells(night), changes)]
    fault = call(farm, "\n".join([*lines, f"Page: {pages / 'index.html'}"]) + "\n", str(pages / "night.json"))
    with store.database.writing() as connection:
        connection.execute(update(notifications).where(notifications.c.id == number).values(fault=fault))
    return fault


def call(farm: Farm, text: str, night_json: str) -> str:
    """Run the command of `notify` with `text` on its stdin; return why it failed, "" where it did not.

    What it leaves running when it has ended lives on, such as what delivers a letter.
    """
    if farm.content.notify is None:
        return ""
    command = list(farm.content.notify)
    if "/" in command[0] or command[0].startswith("~"):
        command[0] = str(farm.path.parent / os.path.expanduser(command[0]))  # noqa: PTH111  keeps an unknown user's ~
    environment = {**os.environ, NIGHT_JSON: night_json}
    # Files, not pipes: a child that the command leaves behind would hold a pipe open.
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as output:
        given.write(text.encode())
        given.seek(0)
        options = {"stdin": given, "stdout": output, "stderr": subprocess.STDOUT}
        try:
            with program(command, leave=True, cwd=farm.path.parent, env=environment, **options) as process:
                code = process.wait(LIMIT_S)
        except OSError as error:
            return f"{command[0]} cannot be started ({error.strerror})"
        except subprocess.TimeoutExpired:
            return f"{command[0]} did not end within {LIMIT_S:.0f} s"
        except ToolHung as error:
            return error.message
        if code == 0:
            return ""
        output.seek(max(0, output.seek(0, os.SEEK_END) - _MOST_OUTPUT))
        said = output.read().decode(errors="replace").strip().splitlines()
        ended = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        return f"{command[0]} {ended}" + (f": {said[-1]}" if said else "")


def _changes(verdict: Verdict, limit: float) -> dict[str, CellChange]:
    """What a verdict tells, each with the accepted package that it was found against."""
    facts = verdict.facts
    if verdict.verdict == _NOT_MEASURED:
        return {_NOT_MEASURED: CellChange(causes=frozenset(filter(None, [facts.get("error")])))}
    against = f"than {facts.get('accepted', {}).get('package', '')}"
    found = {}
    for words in facts.get("worse", ()):
        values = {fact: fact.value(facts.get("exact", {})) for fact in FACTS if str(words).startswith(fact.name)}
        known = {fact: value for fact, value in values.items() if value is not None}
        found[f"{str(words).partition(' ')[0]} worse {against}"] = CellChange(
            {fact.key: value for fact, value in known.items()}, limits={fact.key: fact.limit for fact in known}
        )
    if lost := facts.get("lost"):  # a regression would not be seen
        found["first"] = CellChange(causes=frozenset({lost}))
    if verdict.verdict == "faster":
        found[f"faster {against}"] = CellChange()
    if verdict.verdict == "slower":
        parts = {
            "": facts,
            **{layer["name"]: layer for layer in facts.get("layers", ()) if layer.get("word") == "slower"},
        }
        amounts = {part: float(one["ratio"]) for part, one in parts.items() if one.get("ratio") is not None}
        counted = facts.get("unit") == "instructions"
        limits = {part: COUNT_LIMIT if counted else LAYER_LIMIT if part else limit for part in amounts}
        found[f"slower {against}"] = CellChange(amounts, frozenset(facts.get("factors", ())), limits)
    return found


def _standing(told: CellChanges, verdict: Verdict | None, limit: float) -> dict[str, CellChange]:
    """What was told and is not gone after a verdict: a night that cannot tell takes nothing back."""
    if verdict is None or verdict.verdict == _NOT_MEASURED:
        return dict(told)
    changes = _changes(verdict, limit)

    def stands(word: str) -> bool:
        if verdict.verdict == "cannot tell" and word != _NOT_MEASURED and " worse " not in word:
            return True
        return word in changes

    return {word: one for word, one in told.items() if stands(word)}


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.2f} %"


def _lines(rows: Iterable[NightCell], changes: Mapping[str, CellChanges]) -> list[str]:
    """One line for people per cell that changed."""
    lines = []
    for row in rows:
        if row.verdict is None or row.cell.name not in changes:
            continue
        facts = row.verdict.facts
        ratio = facts.get("ratio")
        change = "" if ratio is None else f" {_percent(ratio)}"
        told = [one.told for one in changes[row.cell.name].values() if one.told]
        change += f", told before with {_percent(max(told))}" if told else ""
        said = "; ".join(filter(None, (row.verdict.reason, *facts.get("worse", ()), facts.get("cause", ""))))
        lines.append(f"- {row.cell.name}: {row.verdict.verdict}{change}" + (f" ({said})" if said else ""))
    return lines
