"""The live page of a search of four axes and of a published table: every control, permalinks, sizes, colours.

    CSE_PICTURE=docs/figures/live_page.png python -m pytest -m browser tests/cse/live_page/test_live_page_browser.py

takes a picture of it.
"""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analysis.ledger import Ledger
from cse.cli.app import main
from tests.cluster.monitor.watching import dashboard, keep_picture
from tests.readable import CLIPPED, OVERLAPS, SCREENS, WIDTH, shown, unfold, violations
from tests.site_ledger import small, train
from tests.synthetic_ledger import write
from tests.waiting import wait_for

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]
REPO = Path(__file__).resolve().parents[3]
AXES = ["dup_rate", "queue_multiple", "temperature", "learning_rate"]
ROWS = "return [...document.querySelectorAll('#runs tr')].map(r => r.innerText.replace(/\\s+/g, ' ').trim())"
HEADS = "return [...document.querySelectorAll('#heads th')].map(h => h.innerText.trim())"
TEXT = "return document.getElementById(arguments[0]).innerText"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("live")
    (folder / "results").mkdir()
    write(folder / "results", 2000, 10)
    ledger = str(folder / "results" / "ledger.db")
    for bundle in ("words_simcse", "words_ablations", "words_rates", "words_tiny"):
        assert main(["import", str(REPO / f"docs/results/bundles/{bundle}.jsonl.gz"), "--ledger", ledger]) == 0
    train(Ledger.open(ledger), small("E8"), 1, lambda run: 50.0, idle=True)
    with dashboard(folder) as served:
        yield served


def opened(browser: Any, address: str, where: str, screen: str = "desk") -> None:
    shown(browser, f"{address}#{where}", screen)
    wait_for(lambda: browser.execute_script(ROWS), 60)


def test_every_axis_is_in_the_table(browser: Any, address: str) -> None:
    opened(browser, address, "sweep=rows")
    assert browser.execute_script(HEADS)[:4] == AXES
    assert len(browser.find_elements("css selector", "#curves polyline.first")) == 1


def test_the_table_sorts_filters_folds_and_turns_pages(browser: Any, address: str) -> None:
    opened(browser, address, "sweep=rows")
    assert browser.execute_script(TEXT, "where") == "1 to 100 of 2,000 runs"
    browser.find_element("css selector", "[data-key='sort best']").click()
    wait_for(lambda: "▼" in " ".join(browser.execute_script(HEADS)), 10)
    best = [float(row.split()[4]) for row in browser.execute_script(ROWS)]
    assert best == sorted(best, reverse=True)
    browser.find_element("id", "after").click()
    wait_for(lambda: browser.execute_script(TEXT, "where") == "101 to 200 of 2,000 runs", 10)
    browser.find_element("id", "words").send_keys("temperature=0.05 state=done")
    wait_for(lambda: "of 2,000 runs" in browser.execute_script(TEXT, "found"), 10)
    assert all(row.split()[2] == "0.05" and "done" in row for row in browser.execute_script(ROWS))
    browser.find_element("id", "fold").click()
    wait_for(lambda: "cells" in browser.execute_script(TEXT, "where"), 10)
    assert all("±" in row and "0 1 2 3 4" in row for row in browser.execute_script(ROWS)[:5])
    link, rows = browser.current_url, browser.execute_script(ROWS)
    shown(browser, link)
    wait_for(lambda: browser.execute_script(ROWS) == rows, 30)
    assert browser.find_element("id", "words").get_attribute("value") == "temperature=0.05 state=done"


def test_a_filter_that_names_no_column_is_told_beside_it(browser: Any, address: str) -> None:
    opened(browser, address, "sweep=rows")
    browser.find_element("id", "words").send_keys("rat=1")
    wait_for(lambda: "no such column: rat; there are dup_rate" in browser.execute_script(TEXT, "found"), 10)
    assert all(entry["level"] != "SEVERE" or "400" in entry["message"] for entry in browser.get_log("browser"))


def test_two_runs_stand_side_by_side_with_what_differs(browser: Any, address: str) -> None:
    action_chains = pytest.importorskip("selenium.webdriver.common.action_chains")
    opened(browser, address, "sweep=E7@tiny")
    for place in (0, 5):
        browser.execute_script(f"document.querySelectorAll('#runs .pick')[{place}].click()")
        time.sleep(1)
    wait_for(lambda: "Two runs" in browser.execute_script(TEXT, "compared"), 10)
    text = browser.execute_script(TEXT, "compared")
    differing = text.partition("Settings in which they differ")[2].partition("settings that they share")[0]
    assert "method.dup_rate" in differing and "train.encoder" not in differing
    assert "training loss" in text and len(browser.find_elements("css selector", "#compared circle.chosen")) == 2
    assert "runs=" in browser.current_url
    keep_picture(browser)
    kept = browser.find_element("css selector", "#compared circle.chosen")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", kept)
    action_chains.ActionChains(browser).move_to_element(kept).perform()
    said = browser.find_element("css selector", "#compared svg .said")
    wait_for(lambda: " at " in said.get_attribute("textContent"), 10)
    browser.find_element("css selector", "#compared button").click()
    wait_for(lambda: not browser.find_element("id", "compared").is_displayed(), 10)


def test_what_is_undecided_comes_with_the_command_that_adds_seeds(browser: Any, address: str) -> None:
    opened(browser, address, "sweep=E7@tiny")
    wait_for(lambda: browser.find_element("id", "verdicts").is_displayed(), 60)
    unfold(browser)
    text = browser.execute_script(TEXT, "verdicts")
    head = r"E7: 7 undecided \(about \d+ more seeds would settle them, [\d.]+ h\); not the paper's scale"
    assert re.match(head, text), text[:200]
    assert (
        "cse reproduce E7 --profile tiny --until decided --max-seeds 12" in text
        and text.count("more seeds would decide it") == 7
    )


@pytest.mark.parametrize("screen", ["desk", "phone"])
def test_the_list_of_sweeps_is_filtered_and_on_a_phone_folded(browser: Any, address: str, screen: str) -> None:
    """The first curve is within reach on either."""
    opened(browser, address, "sweep=rows", screen)
    top = browser.execute_script("return document.querySelector('#curves').getBoundingClientRect().top")
    assert top < 700 and browser.execute_script("return document.getElementById('list').open") == (screen == "desk")
    unfold(browser)
    cards = (
        "return [...document.querySelectorAll('#sweeps button')].filter(b => b.checkVisibility()).map(b => b.innerText)"
    )
    every = browser.execute_script(cards)
    assert browser.execute_script(TEXT, "number") == f"{len(every)} sweeps" and len(every) > 8
    browser.find_element("id", "named").send_keys("pooler SIMCSE")
    (card,) = browser.execute_script(cards)
    assert card.startswith("S7@tiny")
    time.sleep(3)  # the next answer keeps the filter
    assert browser.execute_script(cards) == [card]
    browser.execute_script("document.querySelector('#sweeps button:not([hidden])').click()")
    wait_for(lambda: browser.execute_script(TEXT, "name").startswith("S7@tiny"), 10)
    assert browser.execute_script("return document.getElementById('list').open") == (screen == "desk")


def test_curves_have_a_legend_and_say_when_training_gained_nothing(browser: Any, address: str) -> None:
    opened(browser, address, "sweep=rows")
    wait_for(lambda: browser.execute_script(TEXT, "legend"), 10)
    legend = browser.execute_script(TEXT, "legend")
    assert "best: dup_rate=" in legend and "the best others of 2000 runs (23)" in legend and "No run" not in legend
    assert len(browser.find_elements("css selector", "#curves polyline.first")) == 1
    opened(browser, address, "sweep=E8")
    wait_for(lambda: "read no direction" in browser.execute_script(TEXT, "legend"), 10)


def test_failures_stand_by_reason_and_an_open_log_keeps_its_scroll(browser: Any, address: str) -> None:
    opened(browser, address, "sweep=rows")
    assert browser.execute_script(TEXT, "failures") == "4 × loss is nan after 6400 examples; lower train.learning_rate"
    unfold(browser)
    unfold(browser)
    browser.execute_script(
        "scrollTo(0, 700); document.querySelector('[data-key=\"sort seed\"]').focus({preventScroll: true})"
    )
    before = browser.execute_script("return [scrollY, document.activeElement.dataset.key]")
    marked = "const one = document.querySelector('#failures details details'); one.dataset.mark = 'mine'"
    browser.execute_script(marked)
    time.sleep(11)  # five polls
    assert (
        browser.execute_script("return [scrollY, document.activeElement.dataset.key]") == before == [700, "sort seed"]
    )
    assert browser.execute_script("return document.querySelector('#failures details details').dataset.mark") == "mine"
    assert browser.execute_script("return document.querySelector('#failures details').open")


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("where", ["sweep=rows&fold=1", "sweep=E7@tiny", "sweep=S7@tiny"])
def test_every_text_is_readable(browser: Any, address: str, where: str, screen: str) -> None:
    browser.get_log("browser")
    opened(browser, address, where, screen)
    time.sleep(1)
    assert browser.execute_script(WIDTH) <= SCREENS[screen][0]
    assert browser.execute_script(OVERLAPS) == [] and browser.execute_script(CLIPPED) == []
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("screen", ["desk", "dark phone"])
@pytest.mark.parametrize("where", ["sweep=rows&fold=1", "sweep=E7@tiny"])
def test_axe_has_no_finding(browser: Any, address: str, axe: str, where: str, screen: str) -> None:
    opened(browser, address, where, screen)
    time.sleep(1)
    unfold(browser)
    assert violations(browser, axe) == []
