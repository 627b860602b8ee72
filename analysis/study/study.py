"""One study out of the ledger: its runs with curves, scores and attempts, read at once."""

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
    """One (cell, seed) of a study and its run; None where nobody has started it."""

    key: Key
    seed: int
    run: RunRow | None
    cell: str = ""
    """The cell's name in the study, of the study's axes."""

    @property
    def state(self) -> Standing:
        return UNCLAIMED if self.run is None else self.run.state

    @property
    def done(self) -> bool:
        return self.run is not None and self.run.state == RunState.DONE and self.run.best is not None


@dataclass(frozen=True)
class Study:
    """What a report is made of; every list in an order that depends on the ledger's content alone."""

    id: str
    title: str
    axes: Sequence[str]
    """Those that name the cells: of a search all that vary, else as many as tell the cells apart."""
    members: Sequence[Member]
    curves: Mapping[str, Sequence[CurvePoint]]
    """Signature -> points as `Ledger.curve` gives them."""
    scores: Sequence[ScoreRow]
    attempts: Mapping[str, Sequence[ProvenanceRow]]
    command: str = ""
    """The command line that repeats the study."""

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
        """What has no result yet, in any state."""
        return [member for member in self.members if not member.done]

    @cached_property
    def dev(self) -> str:
        """The metric on the curves that runs were picked by; where runs differ, the names joined."""
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
    """The study of the planned (cell key, signature, seed); `searched`: a sampler drew the cells."""
    rows = sorted(planned, key=lambda row: (json.dumps(dict(row[0]), sort_keys=True, default=str), row[2], row[1]))
    signatures = [signature for _, signature, _ in rows]
    runs = {run.signature: run for run in ledger.runs(signatures=signatures)}
    named = choose_axes([key for key, _, _ in rows], axes, searched=searched)
    members = [Member(key, seed, runs.get(signature), label(key, named)) for key, signature, seed in rows]
    scores = sorted(ledger.scores(runs), key=lambda score: (score.signature, score.suite, score.at))
    return Study(id, title, named, members, ledger.curves(runs), scores, ledger.provenance(runs), command)
