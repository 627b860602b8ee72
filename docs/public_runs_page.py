"""docs/results/public_runs.md and its picture: `python -m docs.public_runs_page FOLDER` writes them.

FOLDER holds `simple_simcse`, the tables of fifty seeds that the page names; they are not in the repository.
"""

import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from analysis.render.markup import align_table
from analysis.render.signs import count_word, sign_word
from analysis.statistics.selection import SEEDS_PICKED
from cse.cli.app import main as cse
from docs.methods_page import folder

URL = "https://github.com/hppRC/simple-simcse"
PICTURE_WIDTH, ROW_HEIGHT, PLOT_LEFT, PLOT_RIGHT, PLOT_TOP = 480, 104, 14, 466, 64
TICK_POINTS = 2
HEAD = """\
# Do fifty public seeds give what a paper prints?

{commands}
[simple-simcse]({url}) (MIT) trains unsupervised SimCSE at the paper's scale with fifty
seeds on each of four encoders, and keeps every score. It is another implementation, with the settings of the paper's
Table A.1 and a look at STS-B dev every 250 steps; the files stay there, the numbers below are ours. A word is that of
[the paper's own scale](../verdicts.md#a-word-for-every-published-value): `one seed could give it` says that one more
seed may give the printed value, not that the mean does. At most one table in twenty has a wrong `different`: the 24
values of S8 share that error, as do the 8 of E2, so that a value above all of 50 seeds, where 1 further seed in 51 is,
may still be one seed's. That supposes normal seeds, and those of BERT-large are not.

![{alt}](../figures/public_runs.svg)

{sentences}

"""
ALT = "Fifty seeds of SimCSE on four encoders, the published value, and the best of 1, 3, 5 and 10 seeds by dev"
FOOT = """\
Behind ± stands a standard deviation over fifty seeds, behind a best of k the standard error of its expectation: the
mean, over all choices of k of the fifty seeds, of the average of the one with the highest score on STS-B dev. Papers
mostly do not say of how many runs theirs is the best. Made by `python -m docs.public_runs_page FOLDER`.
"""


@dataclass(frozen=True)
class PublicRow:
    """An encoder's fifty seeds and the row that they are compared with."""

    file: str
    name: str
    table: str
    row: str
    settings: str


ROWS = (
    PublicRow("bert-base-uncased", "BERT-base", "S8", "SimCSE-BERT-base", "batch 64, rate 3e-5"),
    PublicRow("bert-large-uncased", "BERT-large", "E2", "SimCSE-BERT-large", "batch 64, rate 1e-5"),
    PublicRow("roberta-base", "RoBERTa-base", "S8", "SimCSE-RoBERTa-base", "batch 512, rate 1e-5"),
    PublicRow("roberta-large", "RoBERTa-large", "S8", "SimCSE-RoBERTa-large", "batch 512, rate 3e-5"),
)
Cells = Mapping[str, Any]


class Judged(NamedTuple):
    """A row with its cells, as a table's JSON has them, and column -> word."""

    row: PublicRow
    cells: Cells
    words: Mapping[str, str]


def command(row: PublicRow, place: str) -> list[str]:
    """What puts an encoder's seeds beside its row."""
    about = f"{URL}, {row.settings}"
    words = ["import", "csv", f"{place}/{row.file}.csv", "--as", row.table, "--row", row.row]
    return [*words, "--about", about, "--licence", "MIT"]


def read(source: Path) -> list[Judged]:
    """Each row beside the paper's."""
    made = []
    with tempfile.TemporaryDirectory() as work:
        ledger = ("--ledger", f"{work}/ledger.db")
        for row in ROWS:
            _call(*command(row, str(source / "simple_simcse")), *ledger)
        names = dict.fromkeys(f"{row.table}@imported" for row in ROWS)
        tables = {name: json.loads(_call("table", name, "--format", "json", *ledger)) for name in names}
        for row in ROWS:
            table = tables[f"{row.table}@imported"]
            key = {"method": "simcse", "train.encoder": row.file}
            rows = (each["cells"] for each in table["rows"] if key.items() <= each["key"].items())
            (cells,) = (row_cells for row_cells in rows if any(cell["n"] for cell in row_cells.values()))
            words = {v["column"]: v["word"] for v in table["verdicts"] if key.items() <= v["key"].items()}
            made.append(Judged(row, cells, words))
    return made


def _call(*words: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as err:
        if cse(list(words)) != 0:
            raise SystemExit(err.getvalue())
    return out.getvalue()


def text(read_rows: Sequence[Judged]) -> str:
    """The page."""
    shown = [f"    cse {' '.join(_quote(word) for word in command(row, 'simple-simcse/results'))}" for row in ROWS]
    head = ["encoder", "avg", "paper", "word", *(f"best of {k}" for k in SEEDS_PICKED), "the paper's"]
    lines = [
        [
            row.name,
            _spread(cells["avg"]),
            f"{cells['avg']['published']:.2f}",
            sign_word(words["avg"]),
            *_best(cells["avg"]),
            _takes(cells["avg"]),
        ]
        for row, cells, words in read_rows
    ]
    columns = list(read_rows[0][2])
    every = [
        [row.name, *(f"{cells[name]['delta']:+.2f} {sign_word(words[name])}" for name in columns)]
        for row, cells, words in read_rows
    ]
    sentences = "\n".join(f"- {line}" for line in _say(read_rows))
    page = HEAD.format(commands="\n".join(shown) + "\n", url=URL, alt=ALT, sentences=sentences)
    first, second = align_table(head, lines, 1), align_table(["encoder", *columns], every, 1)
    return f"{page}{first}\n\n## Every column: fifty seeds' mean minus the paper's value\n\n{second}\n\n{FOOT}"


def _quote(word: str) -> str:
    return f'"{word}"' if " " in word else word


def _spread(cell: Cells) -> str:
    return f"{cell['mean']:.2f} ± {cell['sd']:.2f}"


def _best(cell: Cells) -> list[str]:
    best = cell["best_of"]
    return [f"{value:.2f} ± {error:.2f}" for value, error in zip(best["expected"], best["error"], strict=True)]


def _takes(cell: Cells) -> str:
    seeds = cell["best_of"]["for_published"]
    beyond = max(cell["values"]) < cell["published"]
    return f"takes the best of {seeds}" if seeds else f"lies above {'all' if beyond else 'the best'} of these 50"


def _say(read_rows: Sequence[Judged]) -> Iterator[str]:
    counts: dict[str, int] = {}
    for _, _, words in read_rows:
        for word in words.values():
            counts[word] = counts.get(word, 0) + 1
    said = ", ".join(count_word(word, count) for word, count in sorted(counts.items(), key=lambda pair: -pair[1]))
    yield f"Of {sum(counts.values())} published values: {said}."
    for row, cells, _ in read_rows:
        cell = cells["avg"]
        yield f"{row.name}: a seed gives {_spread(cell)}; the paper's {cell['published']:.2f} {_takes(cell)}."


STYLE = """\
text { font: 12px system-ui, sans-serif; fill: #1c2b2a; }
.name { font-weight: 600; font-size: 13px; }
.note { font-size: 11px; fill: #4c6663; }
.axis { stroke: #c3cfcd; }
.seed { fill: #00796b; fill-opacity: .38; }
.paper { stroke: #b3261e; stroke-width: 2.5; }
.papers { fill: #b3261e; font-weight: 600; font-size: 11px; }
.best { fill: #ffffff; stroke: #1c2b2a; stroke-width: 1.5; }
.k { font-size: 9.5px; }
@media (prefers-color-scheme: dark) {
  text { fill: #e3ecec; }
  .note { fill: #a5bdba; }
  .axis { stroke: #3d4d4b; }
  .seed { fill: #80cbc4; fill-opacity: .42; }
  .paper { stroke: #ff8a80; }
  .papers { fill: #ff8a80; }
  .best { fill: #1d2827; stroke: #e3ecec; }
}
"""
TITLE = "Fifty seeds of SimCSE on each of four encoders beside the published value"


def picture(read_rows: Sequence[Judged]) -> str:
    """The SVG, 480 wide, so that it can be read on a phone; colours follow the reader's light or dark scheme."""
    every = [value for _, cells, _ in read_rows for value in (*cells["avg"]["values"], cells["avg"]["published"])]
    low, high = min(every) - 0.4, max(every) + 0.4
    height = PLOT_TOP + ROW_HEIGHT * len(read_rows) + 34

    def at(value: float) -> float:
        return float(PLOT_LEFT + (value - low) / (high - low) * (PLOT_RIGHT - PLOT_LEFT))

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {PICTURE_WIDTH} {height}"',
        f' role="img" aria-label="{TITLE}">',
        f"<title>{TITLE}</title>",
        f"<style>\n{STYLE}</style>",
        _text(14, 20, "name", "Fifty seeds each, and what the paper prints"),
        _text(14, 38, "note", "SimCSE, mean of seven STS test sets (Spearman x 100). A dot is a seed;"),
        _text(14, 53, "note", "rings: expected best of 1, 3, 5, 10 seeds by dev; the line: the paper's value."),
    ]
    bottom = PLOT_TOP + ROW_HEIGHT * len(read_rows)
    for tick in range(int(low // TICK_POINTS + 1) * TICK_POINTS, int(high) + 1, TICK_POINTS):
        parts.append(f'<line class="axis" x1="{at(tick):.1f}" y1="{PLOT_TOP}" x2="{at(tick):.1f}" y2="{bottom}"/>')
        parts.append(_text(at(tick), bottom + 16, "note", str(tick), "middle"))
    for place, (row, cells, _) in enumerate(read_rows):
        parts += _draw_row(row, cells["avg"], PLOT_TOP + ROW_HEIGHT * place, at)
    return "\n".join([*parts, "</svg>", ""])


def _draw_row(row: PublicRow, cell: Cells, top: float, at: Callable[[float], float]) -> Iterator[str]:
    middle, published = top + 68, at(cell["published"])
    yield _text(PLOT_LEFT, top + 20, "name", row.name)
    yield _text(PLOT_LEFT, top + 35, "note", f"{_spread(cell)}; the paper's {cell['published']:.2f} {_takes(cell)}")
    columns: dict[int, int] = {}
    for value in sorted(cell["values"]):
        slot = round(at(value) / 4)
        columns[slot] = columns.get(slot, 0) + 1
        offset = (columns[slot] // 2) * (4.2 if columns[slot] % 2 else -4.2)
        yield f'<circle class="seed" cx="{at(value):.1f}" cy="{middle + offset:.1f}" r="2.6"/>'
    yield f'<line class="paper" x1="{published:.1f}" y1="{middle - 22}" x2="{published:.1f}" y2="{middle + 22}"/>'
    anchor = "end" if published > PICTURE_WIDTH - 60 else "middle"
    yield _text(published, middle + 34, "papers", f"{cell['published']:.2f}", anchor)
    for value in cell["best_of"]["expected"]:
        yield f'<circle class="best" cx="{at(value):.1f}" cy="{middle}" r="4"/>'


def _text(x: float, y: float, kind: str, words: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


if __name__ == "__main__":
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "simple_simcse").is_dir():
        raise SystemExit("python -m docs.public_runs_page FOLDER, with simple_simcse in it")
    rows = read(Path(sys.argv[1]))
    (folder() / "results" / "public_runs.md").write_text(text(rows), encoding="utf8")
    (folder() / "figures" / "public_runs.svg").write_text(picture(rows), encoding="utf8")
