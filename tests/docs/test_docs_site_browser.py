"""The docs' site in a real browser: on a desk and a phone, light and dark, no page is hard to read or fetches."""

import functools
import http.server
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chromium import chromium
from tests.docs.test_docs_site import build
from tests.readable import SCREENS, axe_source, faults, shown, violations

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]
PAINTED = "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
ARTICLE = "article"
"""What is ours: the theme's menus lie on each other by design, where a script folds them."""
GRAVE = {"serious", "critical"}


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Writes no line for each request."""

    def log_message(self, *given: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built: Path = tmp_path_factory.mktemp("site")
    assert build(built).returncode == 0
    return built


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def pages(folder: Path) -> list[str]:
    found = [file.relative_to(folder).as_posix().removesuffix("index.html") for file in folder.rglob("index.html")]
    assert len(found) > 100
    return sorted(found)


@pytest.fixture
def browser() -> Iterator[Any]:
    with chromium(1280, 1000) as opened:
        opened.set_script_timeout(120)
        yield opened


@pytest.mark.parametrize("screen", SCREENS)
def test_every_page_is_readable_and_fetches_nothing(browser: Any, address: str, pages: list[str], screen: str) -> None:
    browser.get_log("performance")
    found = {}
    for page in pages:
        shown(browser, address + page, screen)
        assert (max(browser.execute_script(PAINTED)) < 100) == SCREENS[screen][1].startswith("dark"), page
        if said := faults(browser, screen, ARTICLE):
            found[page] = said
    assert found == {}
    assert {url for url in fetched(browser) if not re.match(f"{address}|data:|blob:|chrome:|about:", url)} == set()


@pytest.mark.parametrize("screen", ["desk", "dark phone"])
def test_axe_finds_nothing_grave(browser: Any, address: str, pages: list[str], screen: str, tmp_path: Path) -> None:
    axe, found = axe_source(tmp_path), {}
    for page in pages:
        shown(browser, address + page, screen)
        if grave := [entry for entry in violations(browser, axe) if entry[1] in GRAVE]:
            found[page] = grave
    assert found == {}


def test_the_verdicts_of_the_gallery_lie_on_a_desk(browser: Any, address: str) -> None:
    shown(browser, f"{address}results/gallery/", "desk")
    widths = (
        "const t = document.querySelector('article table'); return [t.scrollWidth, t.closest('article').clientWidth]"
    )
    table, article = browser.execute_script(widths)
    assert 400 < table <= article


def fetched(browser: Any) -> Iterator[str]:
    messages = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
    return (m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent")
