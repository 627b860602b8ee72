"""Can a page be read? Texts that lie on each other or are cut off, what axe-core finds, screens and colours."""

import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

AXE = "axe-core@4.10.3"
NO_AXE = f"no axe-core: name axe.min.js in CSE_AXE, or install npm where the registry can be reached (npm pack {AXE})"
SCREENS = {"desk": (1280, "light"), "dark desk": (1280, "dark"), "phone": (390, "light"), "dark phone": (390, "dark")}
OVERLAPS = r"""
const within = document.querySelector(arguments[0] || 'body'), boxes = [], range = document.createRange();
const walk = document.createTreeWalker(within, NodeFilter.SHOW_TEXT);
for (let node; (node = walk.nextNode());) {
  const parent = node.parentElement;
  if (!node.data.trim() || parent.closest('script, style, .skip') || !parent.checkVisibility()) continue;
  range.selectNodeContents(node);
  for (const box of range.getClientRects()) {
    if (box.width < 1 || box.height < 1) continue;
    const spare = box.height * 0.25;
    boxes.push([box.left + 1, box.top + spare, box.right - 1, box.bottom - spare, node.data.trim().slice(0, 40)]);
  }
}
boxes.sort((a, b) => a[1] - b[1]);
const clashes = [];
for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length && boxes[j][1] < boxes[i][3]; j++)
  if (boxes[i][0] < boxes[j][2] && boxes[j][0] < boxes[i][2]) clashes.push([boxes[i][4], boxes[j][4]]);
return clashes;
"""
"""Pairs of texts that lie on each other."""
CLIPPED = r"""
return [...document.querySelector(arguments[0] || 'body').querySelectorAll('*')].filter(element => {
  const style = getComputedStyle(element), scrolls = /auto|scroll/.test(style.overflowX + style.overflowY);
  return element.checkVisibility() && !scrolls && style.overflowX !== 'visible' && element.clientWidth > 0
    && element.scrollWidth > element.clientWidth + 1 && !element.matches('svg, svg *');
}).map(element => element.outerHTML.slice(0, 80));
"""
LOADED = "return document.body !== null && document.readyState === 'complete'"
"""A machine that is short of time answers before a page has its body."""
WIDTH = "return document.documentElement.scrollWidth"


def shown(browser: Any, url: str, screen: str = "desk", media: str = "screen") -> None:
    """Open a page on a screen."""
    from selenium.webdriver.support.wait import WebDriverWait

    width, scheme = SCREENS[screen]
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": [feature]})
    browser.get("about:blank")
    browser.get(url)
    WebDriverWait(browser, 60).until(lambda here: here.execute_script(LOADED))


def unfold(browser: Any) -> None:
    browser.execute_script("document.querySelectorAll('details').forEach(block => { block.open = true; })")


def faults(browser: Any, screen: str, within: str = "body") -> dict[str, Any]:
    """What stops a reader of the page that is open; `within`: the part of it that is ours."""
    width = browser.execute_script(WIDTH)
    found = {
        "wider than the screen": width if width > SCREENS[screen][0] else None,
        "on each other": browser.execute_script(OVERLAPS, within),
        "cut off": browser.execute_script(CLIPPED, within),
        "the browser says": [entry["message"] for entry in browser.get_log("browser")],
    }
    return {name: value for name, value in found.items() if value}


def axe_source(folder: Path) -> str:
    """axe-core: the file that CSE_AXE names, or from the npm registry into this folder; where neither is, a skip."""
    given, npm = os.environ.get("CSE_AXE"), shutil.which("npm")
    if given:
        return Path(given).read_text(encoding="utf8")
    if npm is None:
        pytest.skip(NO_AXE)
    done = subprocess.run([npm, "pack", AXE], cwd=folder, capture_output=True, text=True, timeout=120)
    packed = next(folder.glob("axe-core-*.tgz"), None)
    if done.returncode or packed is None:
        pytest.skip(NO_AXE)
    with tarfile.open(packed) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode("utf8")


def violations(browser: Any, axe: str) -> list[Any]:
    """What axe-core finds on the page that is open: rule, impact, where."""
    browser.execute_script(axe)
    run = "axe.run().then(result => arguments[0](result.violations), error => arguments[0]([{id: String(error)}]))"
    found = browser.execute_async_script(run)
    return [(v["id"], v.get("impact"), [n["html"][:120] for n in v.get("nodes", ())][:3]) for v in found]
