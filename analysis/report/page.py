"""Report as one HTML page: it loads nothing, runs no script, and escapes every text."""

from functools import partial
from pathlib import Path

from analysis.figures.canvas import save
from analysis.render.formats import render
from analysis.render.templates import fill
from analysis.report.report import Report
from cse_train.files import replace_text


def page(report: Report) -> str:
    """Returns the whole page; equal reports give equal text."""
    return fill("analysis/report/page.html", report=report, results=partial(render, format="html"))


def write_report(report: Report, folder: Path, *, figures: bool = False) -> Path:
    """Writes `index.html` and, on request, each figure as PNG and PDF next to it; returns the page's path."""
    for picture in report.pictures if figures else ():
        for suffix in ("png", "pdf"):
            save(picture.figure, folder / f"{picture.name}.{suffix}")
    target = folder / "index.html"
    replace_text(target, page(report))
    return target
