"""A chromium without a window, for every test that looks at a page."""

import contextlib
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

HINT = "apt-get install -y --no-install-recommends chromium chromium-driver; pip install -e '.[browser]'"
WITHOUT_WINDOW = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")


@contextlib.contextmanager
def chromium(width: int, height: int) -> Iterator[Any]:
    """A browser of that many pixels whose console and network are recorded; skips where it is absent."""
    webdriver = pytest.importorskip("selenium.webdriver", reason=HINT)
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip(HINT)
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in WITHOUT_WINDOW:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    opened.set_window_size(width, height)
    try:
        yield opened
    finally:
        opened.quit()
