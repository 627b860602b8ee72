"""Ray's own dashboard beside a sweep that runs: it asks for the cluster's token, and its actors carry our names.

    CSE_PICTURE=docs/figures/ray_dashboard.png python -m pytest -m browser -k ray_dashboard tests/cluster/monitor

takes the picture of its list of actors.
"""

import re
import secrets
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chromium import chromium
from tests.cluster.monitor.watching import SPACE, ended, keep_picture, started
from tests.waiting import wait_for

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
TOKEN = secrets.token_hex(32)
COOKIE = "ray-authentication-token"
NAMES = ("slot 1 of mine", "mailbox of slot 1 of mine", "monitor of mine")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The dashboard of a sweep's cluster as `cse run` names it."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "mine.yaml").write_text(SPACE, encoding="utf8")
    driver = started(folder, "run", "mine.yaml", "--max-concurrent", "1", RAY_AUTH_TOKEN=TOKEN)
    try:
        wait_for(lambda: "dashboard" in said(folder) or driver.poll() is not None, 200)
        assert driver.poll() is None, said(folder)
        found = re.search(r"dashboard (\S+)", said(folder))
        assert found
        yield f"http://{found[1]}"
    finally:
        ended(driver)


def said(folder: Path) -> str:
    return (folder / "run.txt").read_text(encoding="utf8")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium(1500, 900) as opened:
        yield opened


def test_without_the_token_it_tells_nothing(address: str) -> None:
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{address}/logical/actors", timeout=30)


def test_its_actors_carry_our_names(browser: Any, address: str) -> None:
    browser.get(address)
    browser.add_cookie({"name": COOKIE, "value": TOKEN})
    browser.get(f"{address}/#/actors")
    browser.refresh()
    wait_for(lambda: all(name in text(browser) for name in NAMES), 120)
    keep_picture(browser)


def text(browser: Any) -> str:
    return str(browser.execute_script("return document.body.innerText"))
