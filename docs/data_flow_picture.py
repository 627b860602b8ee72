"""docs/figures/data_flow.svg, what runs where in a sweep: `python -m docs.data_flow_picture` writes it.

Every part names the module that does it, and the memory is what that module asks Ray for; a name without a module is
an error. The drawing is 480 wide, so that it can be read on a phone.
"""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

from cluster.runtime.resources import GROUP_GB, WORKER_GB

FILE = Path(__file__).resolve().parent / "figures" / "data_flow.svg"
WIDTH, HEIGHT = 480, 604
STYLE = """\
text { font: 11.5px system-ui, sans-serif; fill: #1c2b2a; }
.name { font-weight: 600; font-size: 12.5px; }
.module { font: 10px ui-monospace, monospace; fill: #4c6663; }
.label { font-size: 11px; fill: #00695c; }
.box { fill: #ffffff; stroke: #4c6663; }
.driver { fill: #e0f2f1; stroke: #00796b; }
.group { fill: #f4f7f7; stroke: #00796b; stroke-dasharray: 5 3; }
.store { fill: #fff6e0; stroke: #a66f00; }
.arrow { fill: none; stroke: #00796b; stroke-width: 1.5; marker-end: url(#head); }
#head path { fill: #00796b; }
@media (prefers-color-scheme: dark) {
  text { fill: #e3ecec; }
  .module { fill: #a5bdba; }
  .label { fill: #80cbc4; }
  .box { fill: #263332; stroke: #a5bdba; }
  .driver { fill: #123b37; stroke: #80cbc4; }
  .group { fill: #1d2827; stroke: #80cbc4; }
  .store { fill: #3b2f12; stroke: #e0b050; }
  .arrow { stroke: #80cbc4; }
  #head path { fill: #80cbc4; }
}
"""
TITLE = "What runs where in a sweep: one driver, one ledger, two slots with two ranks each, one storage"


def picture() -> str:
    """The SVG; colours follow the reader's light or dark scheme."""
    head = '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{TITLE}">',
        f"<title>{TITLE}</title>",
        f"<style>\n{STYLE}</style>",
        f'<defs>{head}<path d="M0 0 8 4 0 8z"/></marker></defs>',
        *_driver(), *_ledger(), *_slot(0, 190), *_slot(1, 342), *_storage(), *_arrows(),
        "</svg>", "",
    ])  # fmt: skip


def _driver() -> Iterator[str]:
    yield _box(8, 8, 464, 128, "driver")
    yield _text(20, 28, "name", "driver: one process of cse run")
    parts = {
        "plan: every cell and seed has a signature": "cluster.plan",
        "search: proposes cells within a budget": "cluster.search",
        "dispatcher: claims runs, reuses done ones": "cluster.sweep.dispatcher",
        "recorder: writes what happens to its runs": "cluster.sweep.recorder",
    }
    for i, (text, module) in enumerate(parts.items()):
        yield _text(20, 50 + 24 * i, "", text)
        yield _module(460, 50 + 24 * i, module, end=True)


def _ledger() -> Iterator[str]:
    yield '<path class="store" d="M8 206v262a59 12 0 0 0 118 0v-262"/>'
    yield '<ellipse class="store" cx="67" cy="206" rx="59" ry="12"/>'
    yield _text(20, 242, "name", "ledger")
    yield _module(20, 258, "analysis.ledger")
    lines = ["SQLite or", "PostgreSQL", "", "runs, claims", "curves", "scores", "provenance", "", "the only", "memory"]
    yield from (_text(20, 284 + 16 * i, "", line) for i, line in enumerate(lines))


def _slot(number: int, top: int) -> Iterator[str]:
    yield _box(166, top, 306, 136, "group")
    yield _text(178, top + 20, "name", f"slot {number}: a Tune trainable")
    yield _text(460, top + 20, "", f"{GROUP_GB} GB", end=True)
    yield _module(178, top + 36, "cluster.slots.slot")
    yield _module(460, top + 36, "cluster.slots.mailbox", end=True)
    for rank in (0, 1):
        left = 178 + 145 * rank
        yield _box(left, top + 48, 137, 78, "box")
        yield _text(left + 10, top + 67, "name", f"rank {rank}")
        yield _text(left + 127, top + 67, "", f"{WORKER_GB} GB", end=True)
        yield _module(left + 10, top + 84, "cluster.slots.worker")
        yield _module(left + 10, top + 100, "cse_train.training")
        yield _text(left + 10, top + 117, "", "torch and DDP")


def _storage() -> Iterator[str]:
    yield _box(166, 536, 306, 60, "store")
    yield _text(178, 556, "name", "storage: a folder all nodes see")
    yield _text(178, 574, "", "checkpoints, logs, cosines of each run")
    yield _module(178, 589, "cluster.runtime.storage")
    yield _box(8, 536, 118, 60, "box")
    yield _text(20, 556, "name", "cse table")
    yield _module(20, 574, "analysis.tables")
    yield _text(20, 590, "", "without Ray")


def _arrows() -> Iterator[str]:
    yield _arrow("M40 136V192")
    yield _arrow("M94 194V138")
    yield _text(46, 160, "label", "rows")
    yield _text(100, 172, "label", "claims")
    yield _arrow("M230 136V188")
    yield _text(236, 160, "label", "job")
    yield _arrow("M330 190V138")
    yield _text(336, 172, "label", "dev points")
    yield _arrow("M146 136V410H164")
    yield _arrow("M220 478V534")
    yield _text(226, 510, "label", "checkpoints")
    yield _arrow("M67 480V534")


def _box(left: int, top: int, width: int, height: int, kind: str) -> str:
    return f'<rect class="{kind}" x="{left}" y="{top}" width="{width}" height="{height}" rx="6"/>'


def _text(left: int, base: int, kind: str, text: str, *, end: bool = False) -> str:
    place = ' text-anchor="end"' if end else ""
    return f'<text class="{kind}" x="{left}" y="{base}"{place}>{text}</text>'


def _module(left: int, base: int, module: str, *, end: bool = False) -> str:
    if importlib.util.find_spec(module) is None:
        raise ValueError(f"no such module: module={module}; name the one that does this now")
    return _text(left, base, "module", module, end=end)


def _arrow(path: str) -> str:
    return f'<path class="arrow" d="{path}"/>'


if __name__ == "__main__":
    FILE.write_text(picture(), encoding="utf-8")
