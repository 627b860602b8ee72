"""The docs' site in a real browser: on a desk and a phone, light and dark; no page is too wide or fetches."""

import functools
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chromium import chromium
from tests.docs.test_docs_site import build

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
PAGES = ("", "start/", "verdicts/", "data_flow/", "methods/", "reference/cse_run/", "reference/space_keys/",
         "reference/python/", "project/", "results/reproduced/E7/")  # fmt: skip
WIDTHS = "return [document.documentElement.scrollWidth, window.innerWidth]"
PAINTED = "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Writes no line for each request."""

    def log_message(self, *given: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("site")
    assert build(folder).returncode == 0
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_kind_of_page_fits_and_fetches_nothing(address: str, width: int, scheme: str) -> None:
    with chromium(width, 1000) as browser:
        on_a_screen(browser, width, scheme)
        for page in PAGES:
            browser.get(address + page)
            shown, window = browser.execute_script(WIDTHS)
            assert shown <= window == width, page
            assert (max(browser.execute_script(PAINTED)) < 100) == (scheme == "dark"), page
        assert [line for line in browser.get_log("browser") if line["level"] == "SEVERE"] == []
        assert {url for url in fetched(browser) if not url.startswith((address, "data:", "blob:", "chrome:"))} == set()


def on_a_screen(browser: Any, width: int, scheme: str) -> None:
    """Emulate a screen of this width, for a reader who asks for this scheme."""
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def fetched(browser: Any) -> Iterator[str]:
    messages = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
    return (m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent")
