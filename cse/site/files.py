"""Files of the site: index.html, site.json, and for each table its page and its downloads."""

import json
from collections.abc import Iterator

from cse.site.citation import read
from cse.site.content import Sheet, Site, counts
from cse.site.page import page
from cse.site.wall import sentence, wall

TABLES_FOLDER = "tables"


def files(site: Site) -> Iterator[tuple[str, str]]:
    """Yields (path below the site's folder, content) of every file; equal sites give equal files."""
    yield "index.html", wall(site)
    sheets = site.listed
    listing = {
        "sentence": sentence(site),
        "verdicts": counts(site.published),
        "sources": list(site.sources),
        "tables": [_entry(sheet) for sheet in sheets],
    }
    yield "site.json", json.dumps(listing, indent=1, ensure_ascii=False) + "\n"
    for before, sheet, after in zip([None, *sheets[:-1]], sheets, [*sheets[1:], None], strict=True):
        yield f"{TABLES_FOLDER}/{sheet.file}.html", page(sheet, before, after)
        if sheet.citation:
            yield f"{TABLES_FOLDER}/{sheet.file}.bib", read(sheet.citation, sheet.source).bibtex
        for scale in sheet.scales:
            for suffix, text in scale.files.items():
                yield f"{TABLES_FOLDER}/{sheet.download(scale, suffix)}", text


def _entry(sheet: Sheet) -> dict[str, object]:
    return {
        "id": sheet.id,
        "title": sheet.title,
        "citation": sheet.citation,
        "table": sheet.where,
        "state": sheet.state,
        "methods": list(sheet.methods),
        "suites": list(sheet.suites),
        "scale": sheet.main.name if sheet.main else "",
        "verdicts": counts([sheet]),
        "contradictions": sheet.contradictions,
        "missing_input": list(sheet.lacking),
        "page": f"{TABLES_FOLDER}/{sheet.file}.html",
        "scales": [
            {
                "scale": scale.name,
                "title": scale.title,
                "same_scale": scale.same,
                "headline": scale.headline,
                "seeds": scale.seeds,
                "runs": scale.spent.runs,
                "seconds": scale.spent.seconds,
                "files": [f"{TABLES_FOLDER}/{sheet.download(scale, suffix)}" for suffix in scale.files],
            }
            for scale in sheet.scales
        ],
    }
