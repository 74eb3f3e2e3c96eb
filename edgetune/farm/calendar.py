"""Calendar of nights: which night it is, when its window begins and ends, in UTC, and times as people read them.

A night bears the date on which its window begins, in the time zone of the farm. Where a clock is set back, the window
begins at the first and ends at the second of two equal times; a time that is skipped counts as if the clock had not
been set forward yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from edgetune.farm.farm_file import FarmFile


@dataclass(frozen=True)
class NightWindow:
    """The window of one night: its date, and the times in UTC at which it begins and ends."""

    date: date
    begins: datetime
    ends: datetime


def local_date(farm: FarmFile, now: datetime) -> date:
    """Return the date of `now` in the time zone of the farm."""
    return now.astimezone(_zone(farm.timezone)).date()


def clock_time(time: datetime | str, timezone: str | None) -> str:
    """Return a time with a zone, such as 2026-11-24 22:00:03 CET, in `timezone` (None: that of this machine).

    Text is in ISO 8601, as the database has it. All that people read of a night has its times from here.
    """
    moment = datetime.fromisoformat(time) if isinstance(time, str) else time
    return f"{moment.astimezone(_zone(timezone)):%Y-%m-%d %H:%M:%S %Z}"


def window_at(farm: FarmFile, now: datetime) -> NightWindow | None:
    """Return the window that `now` (with a time zone) is in; None by day, and where the farm has no window."""
    today = local_date(farm, now)
    for day in (today - timedelta(days=1), today):
        window = window_of(farm, day)
        if window is not None and window.begins <= now < window.ends:
            return window
    return None


def next_window(farm: FarmFile, now: datetime, after: date | None = None) -> NightWindow | None:
    """Return the window that `now` is in, by day the next one; None where the farm has no window.

    With `after` it is one that begins on a later date.
    """
    days = (local_date(farm, now) + timedelta(days=number) for number in (-1, 0, 1, 2))
    windows = (window_of(farm, day) for day in days if after is None or day > after)
    return next((window for window in windows if window is not None and window.ends > now), None)


def window_of(farm: FarmFile, day: date) -> NightWindow | None:
    """Return the window that begins on `day`; None where the farm has no window."""
    if farm.window is None:
        return None
    begin, end = farm.window
    last = day if begin < end else day + timedelta(days=1)
    return NightWindow(day, _utc(farm, day, begin, fold=0), _utc(farm, last, end, fold=1))


def _utc(farm: FarmFile, day: date, at: time, fold: int) -> datetime:
    wall = datetime.combine(day, at, tzinfo=_zone(farm.timezone)).replace(fold=fold)
    skipped = wall.astimezone(UTC).astimezone(wall.tzinfo).replace(tzinfo=None) != wall.replace(tzinfo=None)
    return wall.replace(fold=0 if skipped else fold).astimezone(UTC)


def _zone(timezone: str | None) -> ZoneInfo | None:
    """The zone of that name; None, which `datetime` takes for that of this machine."""
    return ZoneInfo(timezone) if timezone else None
