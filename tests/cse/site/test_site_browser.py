"""The site in a real browser: on a desk, on a phone, in the dark and on paper; filters, keyboard, no script; axe-core.

axe-core comes from the npm registry into a temporary folder, or from the file that CSE_AXE names.
"""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.readable import CLIPPED, OVERLAPS, SCREENS, WIDTH, shown, unfold, violations

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]
PAGES = ("index.html", "tables/E7.html", "tables/S3.html", "tables/E8.html", "tables/L5.html", "tables/systems.html")
RIGHT, ENTER = "\ue014", "\ue007"
"""Keys as WebDriver names them."""
CARDS = "return [...document.querySelectorAll('.card')].filter(card => card.checkVisibility()).length"
SHOWN = (
    "return [...document.querySelectorAll('.sheet td > span')].filter(s => s.checkVisibility()).map(s => s.className)"
)


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("page", PAGES)
def test_every_text_is_readable(browser: Any, folder: Path, page: str, screen: str) -> None:
    shown(browser, (folder / page).as_uri(), screen)
    unfold(browser)
    views = browser.find_elements("css selector", ".scale:first-of-type .toggle input")
    for view in views or [None]:
        if view is not None:
            view.click()
        assert browser.execute_script(WIDTH) <= SCREENS[screen][0]
        assert browser.execute_script(OVERLAPS) == []
        assert browser.execute_script(CLIPPED) == []
    assert browser.get_log("browser") == []


def test_paper_has_everything_and_no_controls(browser: Any, folder: Path) -> None:
    shown(browser, (folder / "tables" / "E7.html").as_uri(), "dark desk", media="print")
    classes = browser.execute_script(SHOWN)
    assert classes.count("ours") == classes.count("paper") == 24 and classes.count("delta") == 8 + 8 + 1
    colours = browser.execute_script("const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]")
    assert colours == ["rgb(27, 31, 36)", "rgb(255, 255, 255)"]
    assert browser.execute_script(OVERLAPS) == []
    pdf = base64.b64decode(
        browser.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69})["data"]
    )
    assert pdf.startswith(b"%PDF") and pdf.count(b"/Type /Page\n") > 2
    shown(browser, (folder / "index.html").as_uri(), media="print")
    assert browser.execute_script(CARDS) == 46
    assert not browser.execute_script("return document.querySelector('.filters').checkVisibility()")


def test_nothing_is_asked_for_but_the_page(browser: Any, folder: Path) -> None:
    for page in PAGES:
        browser.get_log("performance")
        shown(browser, (folder / page).as_uri())
        messages = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
        asked = {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}
        assert {url for url in asked if not url.startswith(("data:", "about:"))} == {(folder / page).as_uri()}


def chosen(browser: Any, name: str, value: str) -> None:
    script = "const s = document.querySelector(`select[name=${arguments[0]}]`); s.value = arguments[1];"
    browser.execute_script(f"{script} s.dispatchEvent(new Event('change', {{bubbles: true}}))", name, value)


def test_filters_stand_in_the_address(browser: Any, folder: Path) -> None:
    url = (folder / "index.html").as_uri()
    shown(browser, url)
    every = browser.execute_script(CARDS)
    chosen(browser, "paper", "SimCSE")
    assert browser.execute_script(CARDS) == 9
    chosen(browser, "verdict", "opposite-direction")
    left = browser.execute_script(CARDS)
    assert 0 < left < 9
    link = browser.current_url
    assert link.endswith("#paper=SimCSE&verdict=opposite-direction")
    assert browser.find_element("css selector", "output").text == f"{left} of {every} tables"
    shown(browser, link)
    assert browser.execute_script(CARDS) == left
    browser.find_element("css selector", ".filters button").click()
    browser.execute_async_script("setTimeout(arguments[0], 100)")
    assert browser.execute_script(CARDS) == every and not browser.current_url.endswith("direction")
    shown(browser, f"{url}#paper=nobody&method=%3Cscript%3E")
    assert browser.execute_script(CARDS) == every, "an address that no filter wrote"
    assert browser.get_log("browser") == []


def test_radios_work_by_keyboard_and_an_entry_opens_its_runs(browser: Any, folder: Path) -> None:
    shown(browser, (folder / "tables" / "S3.html").as_uri())
    assert set(browser.execute_script(SHOWN)) == {"ours", "paper"}
    browser.find_element("css selector", ".show-both").send_keys(RIGHT)
    assert set(browser.execute_script(SHOWN)) == {"ours"}
    browser.switch_to.active_element.send_keys(RIGHT)
    assert set(browser.execute_script(SHOWN)) == {"paper"}
    browser.switch_to.active_element.send_keys(RIGHT)
    assert set(browser.execute_script(SHOWN)) == {"delta"}
    browser.switch_to.active_element.send_keys(RIGHT)
    assert set(browser.execute_script(SHOWN)) == {"ours", "paper", "delta"}
    link = browser.find_element("css selector", "table.sheet td a")
    block = "return document.querySelector(arguments[0]).closest('details').open"
    target = "#" + link.get_attribute("href").partition("#")[2]
    assert browser.execute_script(block, target) is False
    link.send_keys(ENTER)
    assert browser.execute_script(block, target) is True
    assert browser.find_element("css selector", f"{target}").is_displayed()


def test_a_wide_table_begins_with_the_mean_and_folds_rows_that_were_not_run(browser: Any, folder: Path) -> None:
    shown(browser, (folder / "tables" / "systems.html").as_uri(), "phone")
    rows = "return [...document.querySelectorAll('.sheet tr.idle')].map(r => r.checkVisibility())"
    folded = browser.execute_script(rows)
    assert folded and not any(folded)
    box = browser.find_element("css selector", ".show-idle")
    assert box.find_element("xpath", "..").text == f"{len(folded)} rows not run"
    box.click()
    assert all(browser.execute_script(rows))
    heads = "return [...document.querySelectorAll('.sheet thead')].map(t => t.innerText.trim().split(/\\s+/))"
    shown(browser, (folder / "tables" / "E2.html").as_uri(), "phone")
    assert {head.index("avg") - ("n" in head) for head in browser.execute_script(heads)} == {1}
    name = "const r = document.querySelector('.sheet tbody tr'); r.closest('.sheet').parentElement.scrollLeft = 300;"
    assert browser.execute_script(f"{name} return r.querySelector('th').getBoundingClientRect().left") >= 0


def test_without_script_all_is_there(browser: Any, folder: Path) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        shown(browser, (folder / "index.html").as_uri())
        cards = browser.find_elements("css selector", ".card")
        assert len(cards) == 46 and all(card.is_displayed() for card in cards)
        assert not browser.find_element("css selector", ".filters").is_displayed()
        shown(browser, (folder / "tables" / "S3.html").as_uri())
        browser.find_element("css selector", ".show-paper").click()
        spans = browser.find_elements("css selector", "table.sheet td > span")
        assert {span.get_attribute("class") for span in spans if span.is_displayed()} == {"paper"}
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.parametrize("screen", ["desk", "dark phone"])
@pytest.mark.parametrize("page", PAGES)
def test_axe_has_no_finding(browser: Any, folder: Path, axe: str, page: str, screen: str) -> None:
    shown(browser, (folder / page).as_uri(), screen)
    unfold(browser)
    assert violations(browser, axe) == []
