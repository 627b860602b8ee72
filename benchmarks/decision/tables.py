"""What each side says of a table's rows, and what its runs cost."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analysis.bundles.reader import Bundle
from analysis.statistics.looks import FAMILY, MARGIN
from benchmarks.verdicts.simulate import welch

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
BUNDLE = RESULTS / "bundles" / "tiny.jsonl.gz"
DECIDED = ("same direction", "opposite direction", "tie")
Key = tuple[tuple[str, str], ...]


def key_of(cell: Mapping[str, Any]) -> Key:
    """A cell's settings, to be compared and looked up; a page has 2 where a space has 2.0."""
    return tuple(sorted((name, str(float(v)) if type(v) is int else str(v)) for name, v in cell.items()))


@dataclass(frozen=True)
class Cost:
    """What one side's words on one table cost."""

    runs: int
    seconds: float
    """CPU seconds."""
    words: Sequence[str]
    """Of every row that the paper prints but the reference."""

    @property
    def decided(self) -> int:
        return sum(word in DECIDED for word in self.words)


@dataclass(frozen=True)
class Verdicts:
    """A table of docs/results/tiny: our words, and the seeds that each row got."""

    words: Mapping[Key, str]
    published: Mapping[Key, float]
    """The paper's difference to its default row."""
    seeds: Mapping[Key, int]

    @classmethod
    def read(cls, table: str) -> "Verdicts":
        page = json.loads((RESULTS / "tiny" / f"{table}.json").read_text(encoding="utf8"))
        (sweep,) = (r for r in Bundle(BUNDLE).records() if r["kind"] == "sweep" and r["spec"]["space"] == table)
        seeds: dict[Key, int] = {}
        for link in sweep["cells"]:
            key = key_of(link["cell"])
            seeds[key] = seeds.get(key, 0) + 1
        verdicts = {key_of(verdict["key"]): verdict for verdict in page["verdicts"]}
        words, published = ({key: v[name] for key, v in verdicts.items()} for name in ("word", "published"))
        return cls(words, published, seeds)

    def ours(self, seconds: Mapping[Key, float]) -> Cost:
        """`seconds`: of a run of each row."""
        words = [word for word in self.words.values() if word != "reference"]
        return Cost(sum(self.seeds.values()), sum(self.seeds[key] * seconds[key] for key in seconds), words)

    def released(self, scores: Mapping[Key, Sequence[float]], seconds: float) -> Cost:
        """Welch's words on the seeds' scores of each row, which all have equally many; `seconds` of all runs."""
        (reference,) = (key for key, word in self.words.items() if word == "reference")
        others = [key for key in self.words if key != reference]
        values_1RS = np.array([[scores[key] for key in (reference, *others)]])
        said = welch(values_1RS, FAMILY / len(others), MARGIN)
        words = [
            "tie" if tie else self._word(key, sign)
            for key, sign, tie in zip(others, said.direction[0], said.tie[0], strict=True)
        ]
        return Cost(sum(map(len, scores.values())), seconds, words)

    def _word(self, key: Key, sign: float) -> str:
        theirs = self.published[key]
        if not sign or not theirs:
            return "undecided"
        return "same direction" if (sign > 0) == (theirs > 0) else "opposite direction"
