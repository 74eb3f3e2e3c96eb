"""Writes what a night leaves to read: `index.html`, `night.json` and `junit.xml`, each whole or not at all."""

from __future__ import annotations

import errno
import xml.etree.ElementTree as ET
from pathlib import Path

from edgetune.config.atomic_update import write_whole
from edgetune.errors import DiskFull, NightFault
from edgetune.farm.farm_file import Farm
from edgetune.farm.night_store import Night, NightStore
from edgetune.farm.page.document import html, percent
from edgetune.farm.page.plots import printable
from edgetune.farm.report import UNJUDGED, NightReport, report

PAGE, JSON, JUNIT = "index.html", "night.json", "junit.xml"


def page_folder(farm: Farm, night: Night) -> Path:
    """Folder of a night's page."""
    return farm.folder / "pages" / night.night


def write_page(farm: Farm, store: NightStore, night: Night) -> Path:
    """Write the page of a night and the files beside it; return the page. Raises DiskFull and NightFault."""
    current = next((other for other in store.nights(farm.name) if other.id == night.id), night)
    return write_report(report(farm, store, current), page_folder(farm, night))


def write_report(found: NightReport, folder: Path) -> Path:
    """Write a report as page, JSON and JUnit XML; return the page. Raises DiskFull and NightFault."""
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


def junit(found: NightReport) -> str:
    """JUnit XML: a test case per cell; alarms are failures, cells that were not measured are skipped."""
    cells = found.cells
    skipped = sum(cell.verdict in UNJUDGED for cell in cells)
    counts = {"tests": str(len(cells)), "failures": str(len(found.alarms)), "skipped": str(skipped)}
    suite = ET.Element("testsuite", {"name": f"{found.farm} {found.night}", **counts})
    for cell in cells:
        case = ET.SubElement(suite, "testcase", {"classname": cell.model, "name": cell.cell})
        if cell.alarm:
            said = "; ".join(filter(None, (f"{cell.verdict} {percent(cell.ratio)}", *cell.worse, cell.cause)))
            ET.SubElement(case, "failure", {"message": printable(said)})
        elif cell.verdict in UNJUDGED:
            ET.SubElement(case, "skipped", {"message": printable(cell.reason or cell.verdict)})
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
