"""The page beside a sweep that runs: rows, curves and time left move, and the browser complains of nothing.

    CSE_PICTURE=docs/figures/dashboard.png python -m pytest -m browser tests/cse/live_page/test_dashboard_browser.py

takes the picture of the page while it moves.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analysis.ledger import Ledger
from tests.cluster.monitor.watching import SPACE, dashboard, ended, keep_picture, started
from tests.waiting import wait_for

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]
SHOWN = """return [document.getElementById('facts').textContent,
  document.querySelectorAll('#curves polyline').length,
  [...document.querySelectorAll('#curves polyline')].map(l => l.getAttribute('points').split(' ').length).join(),
  [...document.querySelectorAll('#runs tr')].map(r => r.innerText.replace(/\\s+/g, ' ')).join('; ')]"""


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A sweep of four runs, one at a time, from its first point on; ended with the tests, as Ctrl-C does."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "mine.yaml").write_text(SPACE, encoding="utf8")
    driver = started(folder, "run", "mine.yaml", "--max-concurrent", "1")
    try:
        wait_for(lambda: curves(folder) > 0 or driver.poll() is not None, 300)
        assert driver.poll() is None, (folder / "run.txt").read_text(encoding="utf8")
        yield folder
    finally:
        ended(driver)


@pytest.fixture(scope="module")
def address(sweep: Path) -> Iterator[str]:
    with dashboard(sweep) as served:
        yield served


def curves(folder: Path) -> int:
    path = folder / "results" / "ledger.db"
    if not path.exists():
        return 0
    ledger = Ledger.open(path)
    return sum(len(points) for points in ledger.curves([run.signature for run in ledger.runs()]).values())


def test_rows_curves_and_the_time_left_move(browser: Any, address: str) -> None:
    browser.get(address)
    wait_for(lambda: "left" in browser.execute_script(SHOWN)[0] and browser.execute_script(SHOWN)[3], 120)
    facts, lines, points, rows = browser.execute_script(SHOWN)
    assert lines >= 1 and rows.count(";") == 3 and "running" in rows
    wait_for(lambda: all(a != b for a, b in zip(browser.execute_script(SHOWN), (facts, -1, points, rows))), 240)  # noqa: B905
    keep_picture(browser)


def test_a_sweep_is_chosen_by_keyboard(browser: Any, address: str) -> None:
    browser.get(address)
    wait_for(lambda: browser.execute_script("return document.querySelectorAll('nav button').length"), 60)
    browser.execute_script("document.querySelector('nav button').focus()")
    time.sleep(5)  # two polls redraw the list meanwhile
    assert browser.execute_script("return document.activeElement.dataset.sweep") == "mine"


def test_nothing_is_complained_of(browser: Any, address: str) -> None:
    assert browser.get_log("browser") == []
