"""Progress display on stderr: a live display on a terminal, plain lines elsewhere, JSON lines for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from edgetune.cli import stderr
from edgetune.cli.failure import one_line
from edgetune.cli.output import Output, to_plain
from edgetune.events import Event
from edgetune.yaml_reader.quantities import format_seconds

if TYPE_CHECKING:
    from rich.table import Table

Listener = Callable[[Event], None]
_SHOWN_TASKS = 12


@contextmanager
def show_progress(output: Output, title: str, *, unit: str = "us") -> Iterator[Listener]:
    """Yield the function that shows events as ``output`` specifies; ``unit`` replaces microseconds in the text."""
    if output.verbosity < 0:
        yield _ignore
    elif output.as_json:
        yield _write_json
    elif stderr.stream().isatty():
        with _LiveDisplay(title, output.verbosity, unit) as display:
            yield display.show
    else:
        yield _PlainLines(output.verbosity, unit).show


def eta_seconds(data: dict[str, object]) -> float | None:
    """Return the remaining seconds according to a round's event, None where it has none."""
    stated = _number(data.get("eta_s"))
    if stated is not None:
        return max(0.0, stated)
    elapsed, budget = _number(data.get("elapsed_s")), _number(data.get("budget_s"))
    if elapsed is None:
        return None
    if budget is not None:
        return max(0.0, budget - elapsed)
    done, total = _number(data.get("trials")), _number(data.get("budget_trials"))
    if not done or total is None:
        return None
    return max(0.0, elapsed / done * (total - done))


def share_done(data: dict[str, object]) -> float | None:
    """Return the used part of the budget according to a round's event, 0 to 1."""
    for done, total in (("elapsed_s", "budget_s"), ("trials", "budget_trials")):
        used, whole = _number(data.get(done)), _number(data.get(total))
        if used is not None and whole:
            return min(1.0, used / whole)
    return None


def plain_line(event: Event, unit: str = "us") -> str:
    """Format an event as one line for a log."""
    data = event.data
    if event.kind == "warning":
        return f"warning: {data.get('message', '')}"
    if event.kind == "round":
        return _round_line(data, unit)
    if event.kind == "stderr":
        return f"{data.get('process', 'stderr')}: {data.get('message', '')}"
    if event.kind == "board":
        name = data.get("board", "")
        detail = str(data.get("detail", "")).removeprefix(f"board '{name}': ")
        return f"{name}: {data.get('what', '')}: {detail}"
    if event.kind == "phase":
        took = _number(data.get("seconds"))
        return f"{data.get('name', '')} {'...' if took is None else f'took {format_seconds(took)}'}"
    words: list[str] = [event.kind]
    for key, value in data.items():
        if value not in (None, "") and not isinstance(value, dict | list):
            words.append(f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}")
    return " ".join(words)


def _round_line(data: dict[str, object], unit: str) -> str:
    trials, total = data.get("trials", 0), data.get("budget_trials")
    parts = [f"{trials} trials" if total is None else f"{trials} of {total} trials"]
    if total is not None and isinstance(trials, int) and isinstance(total, int) and trials > total:
        parts = [f"{trials} trials are recorded, which is more than {total}"]
    task, best = data.get("task"), _number(data.get("best_us"))
    if task is not None:
        parts.append(f"{task} {f'{best:.2f} {unit}' if best is not None else 'not yet measured'}")
    if (whole := _number(data.get("end_to_end_us"))) is not None:
        parts.append(f"end to end about {whole:.1f} {unit}")
    if (elapsed := _number(data.get("elapsed_s"))) is not None:
        parts.append(f"{format_seconds(elapsed)} so far")
    if (left := eta_seconds(data)) is not None:
        parts.append(f"{format_seconds(left)} left")
    return ", ".join(parts)


def _write_json(event: Event) -> None:
    stderr.say_json({key: to_plain(value) for key, value in event.to_json().items()})


def _ignore(event: Event) -> None:
    del event


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _is_wanted(event: Event, verbosity: int) -> bool:
    """Candidates, tasks, routine events of boards and lines of libraries are shown only with ``-v``.

    The summary is part of the result on stdout.
    """
    daily = event.kind == "board" and event.data.get("what") in {"noisy", "agent"}
    minor = event.kind in {"candidate", "task", "stderr"} or daily
    return event.kind != "summary" and (not minor or verbosity > 0)


class _PlainLines:
    """One line per event."""

    def __init__(self, verbosity: int, unit: str) -> None:
        self.verbosity = verbosity
        self.unit = unit

    def show(self, event: Event) -> None:
        if _is_wanted(event, self.verbosity):
            stderr.say(f"edgetune: {one_line(plain_line(event, self.unit))}")


class _LiveDisplay:
    """A bar with remaining time, the end-to-end estimate, and the best time of each task."""

    def __init__(self, title: str, verbosity: int, unit: str) -> None:
        from rich.console import Console
        from rich.live import Live

        self.title = title
        self.verbosity = verbosity
        self.unit = unit
        self.phase = "starting"
        self.latest: dict[str, object] = {}
        self.tasks: dict[str, dict[str, object]] = {}
        self.console = Console(file=stderr.stream(), markup=False, highlight=False, emoji=False)
        self.live = Live(
            console=self.console,
            refresh_per_second=4,
            get_renderable=self._render,
            transient=True,
            redirect_stderr=False,  # its lines are from libraries
        )
        self.foreign: stderr.Mode = "silent"

    def __enter__(self) -> Self:
        self.live.start()
        # The display is redrawn all the time: no other line may come between its lines.
        self.foreign = stderr.show_foreign("forward" if self.verbosity > 0 else "silent")
        return self

    def __exit__(self, *_: object) -> None:
        stderr.settle()
        self._show_foreign()
        stderr.show_foreign(self.foreign)
        self.live.stop()

    def _show_foreign(self) -> None:
        for line in stderr.forwarded():
            self.console.print(f"stderr: {one_line(line)}")

    def show(self, event: Event) -> None:
        self._show_foreign()
        task = event.data.get("task")
        if event.kind == "task" and task is not None:
            self.tasks.setdefault(str(task), {}).update(event.data)
        if event.kind == "round":
            self.latest = event.data
        elif event.kind == "phase" and "seconds" not in event.data:  # with seconds it has ended
            self.phase = one_line(str(event.data.get("name", "")))
        elif event.kind in {"warning", "board", "candidate", "stderr"} and _is_wanted(event, self.verbosity):
            self.console.print(one_line(plain_line(event, self.unit)))

    def _render(self) -> Table:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        grid = Table.grid(padding=(0, 2))
        grid.add_row(one_line(self.title), self.phase, self._estimate())
        share = share_done(self.latest)
        if share is not None:
            left = eta_seconds(self.latest)
            eta = f"{share:.0%}, {format_seconds(left)} left" if left is not None else f"{share:.0%}"
            grid.add_row(
                f"{self.latest.get('trials', 0)} trials", ProgressBar(total=1.0, completed=share, width=40), eta
            )
        for name, data in self._slowest():
            best = _number(data.get("best_us"))
            weight = data.get("weight", 1)
            grid.add_row(f"  {one_line(name)}", f"x{weight}", f"{best:.2f} {self.unit}" if best is not None else "-")
        return grid

    def _estimate(self) -> str:
        total = _number(self.latest.get("end_to_end_us"))
        return f"end to end about {total:.1f} {self.unit}" if total is not None else ""

    def _slowest(self) -> list[tuple[str, dict[str, object]]]:
        def cost(item: tuple[str, dict[str, object]]) -> float:
            return -(_number(item[1].get("best_us")) or 0.0) * (_number(item[1].get("weight")) or 1.0)

        return sorted(self.tasks.items(), key=cost)[:_SHOWN_TASKS]
