"""The results in the navigation: every page is there, and a folder of tables needs a title alone."""

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1]
FOLDER = "results/"
BUNDLES = "bundles"
TITLES = {"words": "Tables of the shipped encoders", "card": "Tables from a card", BUNDLES: "Runs as bundles"}
"""Folder -> its group's title, in their order."""


def nav() -> list[Any]:
    """The pages that the index lists, the others, and a group for each folder, the bundles last."""
    listed = re.findall(rf"\]\(({FOLDER}[\w/]+\.md)\)", (DOCS / "index.md").read_text(encoding="utf8"))
    folders = sorted(path for path in (DOCS / FOLDER).iterdir() if path.is_dir() and any(path.glob("*.md")))
    folders.sort(key=lambda folder: list(TITLES).index(folder.name))
    return [*dict.fromkeys([*listed, *_pages(DOCS / FOLDER)]), *map(_group, folders)]


def _group(folder: Path) -> dict[str, Any]:
    title, pages = TITLES[folder.name], _pages(folder)
    return {title: [{Path(page).stem: page} for page in pages] if len(pages) > 1 else pages[0]}


def _pages(folder: Path) -> list[str]:
    return [path.relative_to(DOCS).as_posix() for path in sorted(folder.glob("*.md"))]
