"""The results file of `benchmarks.sweep`: one JSON line for each run, so that a measurement goes on where it ended."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

Side = Literal["released", "tune", "ours", "truth"]


class Curve(NamedTuple):
    """What one run found and cost."""

    state: str
    """`done`, or `stopped` by the scheduler."""
    scores: list[float]
    """Spearman x 100 on the dev set at each evaluation."""
    step_s: float
    """CPU seconds of everything but evaluations."""
    evaluation_s: float
    """CPU seconds of evaluations."""


@dataclass(frozen=True)
class Row:
    """One run of one side; `truth` are seeds that no side chose by."""

    side: Side
    cell: Mapping[str, Any]
    seed: int
    state: str
    scores: list[float]
    step_s: float
    evaluation_s: float
    load: float
    """Load average of the machine when the run ended."""

    @property
    def best(self) -> float:
        """What the run reports."""
        return max(self.scores)

    @property
    def seconds(self) -> float:
        """CPU seconds in all."""
        return self.step_s + self.evaluation_s


class Results:
    """The rows of a file. A last line that a kill cut short is left out and written over."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.rows = [Row(**row) for row in _whole(file)]

    def find(self, side: Side, cell: Mapping[str, Any], seed: int) -> Row | None:
        """The row of this run, where there is one."""
        return next((r for r in self.rows if (r.side, dict(r.cell), r.seed) == (side, dict(cell), seed)), None)

    def of(self, side: Side) -> list[Row]:
        """The rows of one side, in the order in which they were run."""
        return [row for row in self.rows if row.side == side]

    def add(self, row: Row) -> None:
        """Append a row, and drop what a kill left of another."""
        self.rows.append(row)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(asdict(kept)) + "\n" for kept in self.rows]
        aside = self.file.with_suffix(".aside")
        aside.write_text("".join(lines), encoding="utf8")
        aside.replace(self.file)


def _whole(file: Path) -> list[dict[str, Any]]:
    rows = []
    for line in file.read_text(encoding="utf8").splitlines() if file.exists() else ():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows
