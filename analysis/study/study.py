"""Reads one study from the ledger: its runs with curves, scores, attempts, and what they cost."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from analysis.ledger import CurvePoint, Ledger, RunRow, ScoreRow
from analysis.ledger.rows import ProvenanceRow
from analysis.run_state import UNCLAIMED, RunState, Standing
from analysis.tables.labels import choose_axes, label
from analysis.tables.results import DEV, Planned
from analysis.tables.spec import Key


@dataclass(frozen=True)
class Member:
    """One (cell, seed) of a study and its run; the run is None if nobody has started it."""

    key: Key
    seed: int
    run: RunRow | None
    cell: str = ""
    """Label of the cell, made of the study's axes."""

    @property
    def state(self) -> Standing:
        return UNCLAIMED if self.run is None else self.run.state

    @property
    def done(self) -> bool:
        return self.run is not None and self.run.state == RunState.DONE and self.run.best is not None


@dataclass(frozen=True)
class Study:
    """Runs of a study with all that a report needs; the order of every list depends on the ledger's content alone."""

    id: str
    title: str
    axes: Sequence[str]
    """Axes that name the cells: all that vary in a search, else as few as distinguish all cells."""
    members: Sequence[Member]
    curves: Mapping[str, Sequence[CurvePoint]]
    """Signature -> points of the run's curve."""
    scores: Sequence[ScoreRow]
    attempts: Mapping[str, Sequence[ProvenanceRow]]
    command: str = ""
    """Command line that repeats the study."""

    @cached_property
    def finished(self) -> list[tuple[Member, RunRow]]:
        """Done runs with a best dev score, in the study's order."""
        return [(member, member.run) for member in self.members if member.done and member.run is not None]

    @cached_property
    def cells(self) -> dict[str, list[tuple[Member, RunRow]]]:
        """Cell -> its finished runs."""
        cells: dict[str, list[tuple[Member, RunRow]]] = {}
        for member, run in self.finished:
            cells.setdefault(member.cell, []).append((member, run))
        return cells

    @cached_property
    def ranked(self) -> list[str]:
        """Cells by their mean best dev score, best first."""
        means = {cell: sum(run.best or 0.0 for _, run in runs) / len(runs) for cell, runs in self.cells.items()}
        return sorted(means, key=lambda cell: (-means[cell], cell))

    @property
    def missing(self) -> list[Member]:
        """Members of the study without a result, in any state."""
        return [member for member in self.members if not member.done]

    @cached_property
    def dev(self) -> str:
        """Metric on the curves by which checkpoints were picked; where runs differ, the names joined."""
        names = dict.fromkeys(str(run.config.get(DEV)) for _, run in self.finished)
        return ", ".join(sorted(names))


def read_study(
    ledger: Ledger,
    planned: Iterable[Planned],
    *,
    id: str,
    title: str,
    axes: Sequence[str],
    command: str = "",
    searched: bool = False,
) -> Study:
    """Reads the study of the planned (cell key, signature, seed); `searched` says that a sampler drew the cells."""
    rows = sorted(planned, key=lambda row: (json.dumps(dict(row[0]), sort_keys=True, default=str), row[2], row[1]))
    signatures = [signature for _, signature, _ in rows]
    runs = {run.signature: run for run in ledger.runs(signatures=signatures)}
    label_axes = choose_axes([key for key, _, _ in rows], axes, searched=searched)
    members = [Member(key, seed, runs.get(signature), label(key, label_axes)) for key, signature, seed in rows]
    scores = sorted(ledger.scores(runs), key=lambda score: (score.signature, score.suite, score.at))
    return Study(id, title, label_axes, members, ledger.curves(runs), scores, ledger.provenance(runs), command)


@dataclass(frozen=True)
class Spent:
    """Cost of a study, summed over all attempts of its runs, failed ones too."""

    runs: int
    """Number of finished runs, each signature once."""
    attempts: int
    examples: int
    seconds: float
    """Seconds of all attempts in sum: two that ran at the same time count twice."""
    shared: int = 0
    """Number of finished runs that other tables of the same call have too."""

    def line(self) -> str:
        shared = f", {self.shared} of them shared with other tables here" if self.shared else ""
        return (
            f"{self.runs} runs{shared}; {self.attempts} attempts, {self.examples:,} training examples, "
            f"{self.seconds:.0f} s of runs in sum"
        )


def sum_cost(study: Study, elsewhere: Iterable[str] = ()) -> Spent:
    """Returns the cost of a study; `elsewhere` holds signatures that other tables of the same call have."""
    finished = {run.signature for _, run in study.finished}
    attempts = [attempt for rows in study.attempts.values() for attempt in rows]
    return Spent(
        runs=len(finished),
        attempts=len(attempts),
        examples=sum(attempt.examples or 0 for attempt in attempts),
        seconds=sum(attempt.seconds or 0.0 for attempt in attempts),
        shared=len(finished & set(elsewhere)),
    )
