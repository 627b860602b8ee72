"""The site of every shipped bundle in a real browser: on a desk and a phone, light and dark, each page can be read.

    CSE_PICTURE=docs/figures/wall.png python -m pytest -m browser -k wall tests/cse/site/test_bundles_site_browser.py

takes the picture of README.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from cse.cli.app import main
from tests.cluster.monitor.watching import keep_picture
from tests.conftest import REPO
from tests.readable import SCREENS, faults, shown, unfold, violations

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(1800)]
GRAVE = {"serious", "critical"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("bundles") / "site"
    bundles = sorted(map(str, (REPO / "docs" / "results" / "bundles").glob("*.jsonl.gz")))
    assert len(bundles) >= 5 and main(["site", *bundles, "--to", str(made)]) == 0
    return made


@pytest.fixture(scope="module")
def pages(folder: Path) -> list[Path]:
    found = sorted(folder.rglob("*.html"))
    assert len(found) > 46
    return found


@pytest.mark.parametrize("screen", SCREENS)
def test_every_page_can_be_read(browser: Any, pages: list[Path], screen: str) -> None:
    found = {}
    for page in pages:
        shown(browser, page.as_uri(), screen)
        unfold(browser)
        if said := faults(browser, screen):
            found[page.name] = said
    assert found == {}


@pytest.mark.parametrize("screen", ["desk", "dark phone"])
def test_axe_finds_nothing_grave(browser: Any, pages: list[Path], axe: str, screen: str) -> None:
    found = {}
    for page in pages:
        shown(browser, page.as_uri(), screen)
        unfold(browser)
        if grave := [entry for entry in violations(browser, axe) if entry[1] in GRAVE]:
            found[page.name] = grave
    assert found == {}


def test_the_wall_begins_with_what_the_gallery_counts(browser: Any, folder: Path) -> None:
    shown(browser, (folder / "index.html").as_uri(), "desk")
    counted = re.search(r"^45 published tables.*$", (REPO / "docs/results/gallery.md").read_text(), re.MULTILINE)
    assert counted and counted[0] in " ".join(browser.find_element("tag name", "body").text.split())
    keep_picture(browser)
