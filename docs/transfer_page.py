"""docs/results/transfer.md and its picture: do findings of two layers hold with four? `python -m docs.transfer_page`.

A finding is a row's difference from its table's row of reference, over seeds, with the verdict of `cse reproduce`. The
runs are those of the shipped bundles: of the two ledgers that may have a table, the one with more seeds is read.
"""

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from analysis.answers.study import judge_study, read_space
from analysis.ledger import Ledger
from analysis.render.markup import align_table
from analysis.render.signs import sign_word
from cse.cli.app import main as cse
from docs.methods_page import folder
from search_spaces.catalog import load_space
from search_spaces.cells import resolve

LEDGERS = {"two CPU cores": ("words_tiny", "words_simcse"), "a card": ("apart/card",)}
TABLES = ("S2", "S3", "E7", "E8", "D7", "D8")
"""Those that were run at both sizes."""
SIZES = {"tiny": "2 layers, 12,800 sentences", "small": "4 layers, 25,600 sentences"}
DIFFERENT = ("same direction", "opposite direction")
HOLDS, TURNS, ONE, NEITHER = "holds", "turns", "decided at one size", "open at both"
HEAD = """\
# Do findings of two layers hold with four?

    python -m docs.transfer_page

writes this page from the bundles [words_tiny, words_simcse and card](bundles/README.md). A finding is a row's
difference from its table's row of reference on STS-B dev, with interval and word of [`cse reproduce`](../verdicts.md).
{sizes}.
Neither is the papers' scale, and the two differ in layers, sentences, evaluations and rates at once: where a
finding turned, one of these would matter. The length of training alone, up to 16 times as long, is
[another page's](card.md#more-sentences).

![{drawn}, by whether the finding holds](../figures/transfer.svg)

{said}

"""


class Finding(NamedTuple):
    """A row's difference at one size."""

    difference: float
    """Ours, in points."""
    low: float
    high: float
    word: str
    seeds: int
    ledger: str


class Row(NamedTuple):
    """A published row at both sizes."""

    table: str
    name: str
    paper: float
    """The paper's difference, in points."""
    tiny: Finding
    small: Finding

    @property
    def outcome(self) -> str:
        """What becomes of the finding; a tie is a finding too."""
        words = (self.tiny.word, self.small.word)
        decided = [word in (*DIFFERENT, "tie") for word in words]
        if not all(decided):
            return ONE if any(decided) else NEITHER
        alike = self.tiny.difference * self.small.difference > 0 if "tie" not in words else words[0] == words[1]
        return HOLDS if alike else TURNS


def read() -> list[Row]:
    """The rows of all tables, from the bundles."""
    with tempfile.TemporaryDirectory() as work:
        ledgers = {name: _open(bundles, Path(work) / f"{name}.db") for name, bundles in LEDGERS.items()}
        rows = []
        for table in TABLES:
            tiny, small = (_read_best(table, size, ledgers) for size in SIZES)
            rows += [Row(table, *row, tiny[row], small[row]) for row in tiny if row in small]
        for ledger in ledgers.values():
            ledger.close()
        return rows


def _open(bundles: Sequence[str], path: Path) -> Ledger:
    for bundle in bundles:
        if cse(["import", str(folder() / "results" / "bundles" / f"{bundle}.jsonl.gz"), "--ledger", str(path)]) != 0:
            raise SystemExit(f"{bundle} cannot be imported")
    return Ledger.open(path)


def _read_best(table: str, size: str, ledgers: dict[str, Ledger]) -> dict[tuple[str, float], Finding]:
    """Name and the paper's difference -> finding, from the ledger with more seeds."""
    read = [_read_findings(table, size, name, ledger) for name, ledger in ledgers.items()]
    return max(read, key=lambda findings: sum(finding.seeds for finding in findings.values()))


def _read_findings(table: str, size: str, name: str, ledger: Ledger) -> dict[tuple[str, float], Finding]:
    resolved = resolve(load_space(table), size)
    study, made = read_space(resolved, ledger, None, None)
    planned = [(member.key, member.run.signature, member.seed) for member in study.members if member.run is not None]
    judged = judge_study(resolved, study, made, ledger, planned)
    findings = {}
    for (place, column), verdict in judged.verdicts.items():
        row = judged.table.rows[place]
        if verdict.interval is not None and verdict.word != "reference":
            named = {axis.rpartition(".")[2]: value for axis, value in row.key.items() if value is not None}
            label = ", ".join(f"{axis} {_word(value)}" for axis, value in named.items())
            key = label, round(verdict.published, 2)
            low, high = verdict.interval
            findings[key] = Finding((low + high) / 2, low, high, verdict.word, row.entries[column].n, name)
    return findings


def _word(value: object) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def text(rows: Sequence[Row]) -> str:
    """The page."""
    head = ["table", "row", "the paper's", *SIZES, ""]
    lines = [[row.table, row.name, f"{row.paper:+.2f}", _tell(row.tiny), _tell(row.small), row.outcome] for row in rows]
    sizes = "; ".join(f"`{name}` is {what}" for name, what in SIZES.items())
    said = "\n".join(f"- {line}" for line in _say(rows))
    ledgers = {finding.ledger for row in rows for finding in (row.tiny, row.small)}
    foot = f"Trained on {' or '.join(sorted(ledgers, reverse=True))}; behind a difference stand its interval and seeds."
    return f"{HEAD.format(sizes=sizes, said=said, drawn=DRAWN)}{align_table(head, lines, 2)}\n\n{foot}\n"


def _tell(finding: Finding) -> str:
    interval = f"{finding.low:+.2f} to {finding.high:+.2f}"
    return f"{finding.difference:+.2f} ({interval}; {finding.seeds}) {sign_word(finding.word)}"


def _say(rows: Sequence[Row]) -> Iterator[str]:
    counts = Counter(row.outcome for row in rows)
    both = counts[HOLDS] + counts[TURNS]
    yield (
        f"Of {len(rows)} rows of {len(TABLES)} tables {both} are decided at both sizes: {counts[HOLDS]} hold, "
        f"{counts[TURNS]} turn. {counts[ONE]} are decided at one size, {counts[NEITHER]} at neither."
    )
    for row in rows:
        if row.outcome == TURNS:
            yield f"{row.table}, {row.name}: {_tell(row.tiny)} at `tiny`, {_tell(row.small)} at `small`."
    different = [row for row in rows if row.tiny.word in DIFFERENT or row.small.word in DIFFERENT]
    alike = sum(row.tiny.difference * row.small.difference > 0 for row in different)
    yield f"Of {len(different)} rows that differ from the reference at one size or both, {alike} have one sign at both."


WIDTH, LEFT, RIGHT, TOP, BOTTOM = 480, 46, 466, 84, 504
STYLE = """\
text { font: 12px system-ui, sans-serif; fill: #1c2b2a; }
.head { font-weight: 600; font-size: 13px; }
.tick { font-size: 11px; fill: #4c6663; }
.grid { stroke: #c3cfcd; }
.equal { stroke: #4c6663; stroke-dasharray: 4 4; }
.bar { stroke: #1c2b2a; stroke-opacity: .25; }
.holds { fill: #00796b; }
.turns { fill: #b3261e; }
.open { fill: none; stroke: #4c6663; stroke-width: 1.4; }
@media (prefers-color-scheme: dark) {
  text { fill: #e3ecec; }
  .tick { fill: #a5bdba; }
  .grid { stroke: #3d4d4b; }
  .equal, .open { stroke: #a5bdba; }
  .bar { stroke: #e3ecec; }
  .holds { fill: #80cbc4; }
  .turns { fill: #ff8a80; }
}
"""
KINDS = {HOLDS: "holds", TURNS: "turns"}
DRAWN = "Differences from the row of reference, two layers and four"


def picture(rows: Sequence[Row]) -> str:
    """The SVG, 480 wide, so that it can be read on a phone; colours follow the reader's light or dark scheme."""
    ends = [value for row in rows for finding in (row.tiny, row.small) for value in (finding.low, finding.high)]
    low, high = min(ends) - 0.3, max(ends) + 0.3

    def across(value: float) -> float:
        return LEFT + (value - low) / (high - low) * (RIGHT - LEFT)

    def up(value: float) -> float:
        return BOTTOM - (value - low) / (high - low) * (BOTTOM - TOP)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {BOTTOM + 46}" role="img" aria-label="{DRAWN}">',
        f"<title>{DRAWN}</title>",
        f"<style>\n{STYLE}</style>",
        _write(14, 20, "head", DRAWN),
        _write(14, 38, "tick", "A dot is a published row, its lines are intervals; points of STS-B dev."),
        *_legend(),
    ]
    for tick in range(int(low // 2 + 1) * 2, int(high) + 1, 2):
        parts.append(f'<path class="grid" d="M{across(tick):.1f} {TOP}V{BOTTOM}M{LEFT} {up(tick):.1f}H{RIGHT}"/>')
        parts.append(_write(across(tick), BOTTOM + 16, "tick", f"{tick:+d}" if tick else "0", "middle"))
        parts.append(_write(LEFT - 6, up(tick) + 4, "tick", f"{tick:+d}" if tick else "0", "end"))
    parts.append(f'<path class="equal" d="M{LEFT} {BOTTOM}L{RIGHT} {TOP}"/>')
    for row in rows:
        x, y, tiny, small = across(row.tiny.difference), up(row.small.difference), row.tiny, row.small
        bars = (
            f"M{across(tiny.low):.1f} {y:.1f}H{across(tiny.high):.1f}M{x:.1f} {up(small.low):.1f}V{up(small.high):.1f}"
        )
        parts.append(f'<path class="bar" d="{bars}"/>')
    for row in sorted(rows, key=lambda row: row.outcome in KINDS):
        x, y = across(row.tiny.difference), up(row.small.difference)
        title = f"<title>{row.table}: {row.name}</title>"
        parts.append(
            f'<circle class="{KINDS.get(row.outcome, "open")}" cx="{x:.1f}" cy="{y:.1f}" r="4.5">{title}</circle>'
        )
    parts.append(_write((LEFT + RIGHT) / 2, BOTTOM + 36, "tick", f"tiny: {SIZES['tiny']}", "middle"))
    parts.append(_write(LEFT + 4, TOP + 14, "tick", f"small: {SIZES['small']}"))
    return "\n".join([*parts, "</svg>", ""])


def _legend() -> Iterator[str]:
    for x, kind, words in ((20, "holds", "holds"), (84, "turns", "turns"), (148, "open", "not decided at both")):
        yield f'<circle class="{kind}" cx="{x}" cy="56" r="4.5"/>'
        yield _write(x + 10, 60, "tick", words)


def _write(x: float, y: float, kind: str, words: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


if __name__ == "__main__":
    rows = read()
    (folder() / "results" / "transfer.md").write_text(text(rows), encoding="utf8")
    (folder() / "figures" / "transfer.svg").write_text(picture(rows), encoding="utf8")
