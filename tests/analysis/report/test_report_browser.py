"""The page in a real browser: every figure is seen, nothing is complained of, nothing is fetched.

    CSE_PICTURE=docs/figures/report.png CSE_REPORT=PAGE python -m pytest -m browser tests/analysis

takes the picture of a page that `cse report` wrote.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cse.cli.app import main
from tests import synthetic_ledger

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]
SEEN = """return [...document.querySelectorAll('figure')].map(figure => {
  const image = figure.querySelector('img'), box = image.getBoundingClientRect();
  return [figure.id, image.complete, image.naturalWidth, image.naturalHeight, box.width, box.height, image.alt.length];
})"""
WORDS = r"""return [...document.querySelectorAll('th, td, h1, h2, p, li')].flatMap(cell => {
  const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), broken = [], range = document.createRange();
  for (let node; (node = walk.nextNode());) for (const word of node.data.matchAll(/[^\s/\-]+/g)) {
    range.setStart(node, word.index); range.setEnd(node, word.index + word[0].length);
    if (new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1) broken.push(word[0]);
  }
  return broken;
})"""
"""Words that stand on two lines; a hyphen or a slash may end a line."""
WIDTH = "return document.documentElement.scrollWidth"
FILTER = "return getComputedStyle(document.querySelector('figure img')).filter"
BOXES = "return [...document.querySelectorAll('.wide')].map(box => [box.scrollHeight, box.clientHeight])"
COLOURS = "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page that CSE_REPORT names, else one of the synthetic ledger with a title that tries to run."""
    given = os.environ.get("CSE_REPORT")
    if given:
        return Path(given).resolve()
    folder = tmp_path_factory.mktemp("rows")
    url = str(synthetic_ledger.write(folder, runs=40, points=4))
    space = folder / "rows.yaml"
    text = space.read_text(encoding="utf8").replace("A synthetic grid", "'<script>document.title = 1</script>'")
    space.write_text(text, encoding="utf8")
    assert main(["report", "rows", "--ledger", url, "--out", str(folder / "page")]) == 0
    return folder / "page" / "index.html"


@pytest.fixture(scope="module")
def requested(browser: Any, page: Path) -> list[str]:
    """Opens the page; every address that it asked for."""
    browser.set_window_size(1000, 1300)
    browser.get(page.as_uri())
    messages = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


def test_every_figure_is_seen(browser: Any, page: Path, requested: list[str]) -> None:
    names = [part.partition('"')[0] for part in page.read_text(encoding="utf8").split('<figure id="')[1:]]
    seen = browser.execute_script(SEEN)
    assert [name for name, *_ in seen] == names and len(names) >= 5
    for name, complete, *sizes in seen:
        assert complete and min(sizes) > 10, (name, sizes)


def test_nothing_is_fetched_run_or_complained_of(browser: Any, requested: list[str], page: Path) -> None:
    """The title tries to run."""
    assert page.as_uri() in requested
    assert [url for url in requested if url != page.as_uri() and not url.startswith("data:")] == []
    assert browser.title != "1" and browser.execute_script("return document.scripts.length") == 0
    assert browser.get_log("browser") == []


def emulated(browser: Any, media: str = "screen", scheme: str = "light") -> None:
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": [feature]})


def test_dark_is_readable_too_and_paper_is_light_and_shows_every_row(browser: Any, requested: list[str]) -> None:
    filters, papers = {}, {}
    for media, scheme in (("screen", "light"), ("screen", "dark"), ("print", "dark")):
        emulated(browser, media, scheme)
        ink, papers[media, scheme] = browser.execute_script(COLOURS)
        assert contrast(ink, papers[media, scheme]) >= 7, scheme
        filters[media, scheme] = browser.execute_script(FILTER)
    boxes = browser.execute_script(BOXES)
    emulated(browser)
    assert papers["screen", "dark"] != papers["screen", "light"] == papers["print", "dark"]
    assert filters["screen", "light"] == filters["print", "dark"] == "none"
    assert filters["screen", "dark"] == "invert(1) hue-rotate(180deg)"
    assert boxes and all(whole <= seen + 1 for whole, seen in boxes)


@pytest.mark.parametrize("width", [390, 1000])
def test_no_word_is_broken_and_no_page_is_wider_than_the_screen(browser: Any, requested: list[str], width: int) -> None:
    emulated(browser)
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        assert browser.execute_script(WIDTH) <= width
        assert browser.execute_script(WORDS) == []
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def contrast(one: str, other: str) -> float:
    """WCAG's ratio of two CSS colours `rgb(r, g, b)`; 7 is its stricter bar."""
    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in colour.partition("(")[2].rstrip(")").split(",")[:3]]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(part * weight for part, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


def test_the_picture_is_small_and_whole(browser: Any, requested: list[str], tmp_path: Path) -> None:
    target = Path(os.environ.get("CSE_PICTURE") or tmp_path / "report.png").resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    assert browser.save_screenshot(str(target))
    content = target.read_bytes()
    assert content.startswith(b"\x89PNG") and 10_000 < len(content) < 300_000
