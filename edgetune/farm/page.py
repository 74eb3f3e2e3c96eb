"""Writes what a night leaves to read: `index.html`, `night.json` and `junit.xml`, each whole or not at all."""

from __future__ import annotations

import errno
import xml.etree.ElementTree as ET
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from edgetune.config.atomic_update import write_whole
from edgetune.errors import DiskFull, NightFault
from edgetune.farm.farm_file import Farm
from edgetune.farm.night_store import Night, NightStore
from edgetune.farm.report import CellReport, NightReport, report
from edgetune.resources import templates_dir

PAGE, JSON, JUNIT = "index.html", "night.json", "junit.xml"
_SPARK_WIDTH, _SPARK_HEIGHT = 120.0, 24.0


def page_folder(farm: Farm, night: Night) -> Path:
    """Folder of a night's page."""
    return farm.folder / "pages" / night.night


def write_page(farm: Farm, store: NightStore, night: Night) -> Path:
    """Write the page of a night and the files beside it; return the page. Raises DiskFull and NightFault."""
    current = next((other for other in store.nights(farm.name) if other.id == night.id), night)
    found = report(farm, store, current)
    folder = page_folder(farm, night)
    texts = {
        PAGE: html(found),
        JSON: found.model_dump_json(indent=1) + "\n",
        JUNIT: junit(found),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            write_whole(text, folder / name)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"no space is left for the page in {folder}: free some and run again") from error
        raise NightFault(f"the page cannot be written to {folder} ({error.strerror}): make it writable") from error
    return folder / PAGE


def html(found: NightReport) -> str:
    """The page: one file without scripts, which needs no network."""
    environment = Environment(
        loader=FileSystemLoader(templates_dir() / "nightly"), undefined=StrictUndefined, autoescape=True
    )
    environment.trim_blocks = environment.lstrip_blocks = True
    environment.filters |= {"cost": cost, "percent": percent, "sparkline": sparkline}
    models = list(dict.fromkeys(sorted(cell.model for cell in found.cells)))
    boards = list(dict.fromkeys(sorted(cell.board for cell in found.cells)))
    matrix = {(cell.model, cell.board): cell for cell in found.cells}
    return environment.get_template("page.html.j2").render(night=found, models=models, boards=boards, matrix=matrix)


def cost(value: float | None, unit: str | None) -> str:
    """A cost for people: microseconds, or a number of instructions."""
    if value is None or unit is None:
        return "-"
    return f"{value / 1e3:,.1f} µs" if unit == "ns" else f"{value:,.0f} instructions"


def percent(ratio: float | None) -> str:
    """A ratio as a change, such as +3.1 %."""
    return "-" if ratio is None else f"{100 * (ratio - 1):+.2f} %"


def sparkline(cell: CellReport) -> str:
    """Points of a polyline through the costs of all nights, in a box of 120 by 24; "" for fewer than two."""
    values = [value for _, value in cell.history if value is not None]
    if len(values) < 2:  # noqa: PLR2004 (a line has two ends)
        return ""
    low, high = min(values), max(values)
    step = _SPARK_WIDTH / (len(values) - 1)
    scale = (_SPARK_HEIGHT - 4) / (high - low or 1.0)
    return " ".join(f"{i * step:.1f},{_SPARK_HEIGHT - 2 - (v - low) * scale:.1f}" for i, v in enumerate(values))


def junit(found: NightReport) -> str:
    """JUnit XML: a test case per cell; alarms are failures, cells that were not measured are skipped."""
    cells = found.cells
    skipped = sum(cell.verdict in ("not measured", "waiting") for cell in cells)
    counts = {"tests": str(len(cells)), "failures": str(len(found.alarms)), "skipped": str(skipped)}
    suite = ET.Element("testsuite", {"name": f"{found.farm} {found.night}", **counts})
    for cell in cells:
        case = ET.SubElement(suite, "testcase", {"classname": cell.model, "name": cell.cell})
        if cell.alarm:
            said = "; ".join(filter(None, (f"{cell.verdict} {percent(cell.ratio)}", *cell.worse, cell.cause)))
            ET.SubElement(case, "failure", {"message": _plain(said)})
        elif cell.verdict in ("not measured", "waiting"):
            ET.SubElement(case, "skipped", {"message": _plain(cell.reason or cell.verdict)})
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _plain(text: str) -> str:
    """`text` without control characters, which XML cannot hold."""
    return "".join(char if char.isprintable() else " " for char in text)
