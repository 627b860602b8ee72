"""Runs of another tool as the records that a ledger takes: the same run has the same signature for ever."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from analysis.answers.imported import IMPORTED
from analysis.answers.imported.metric import Metric, protocol_of_metric, spec_of_metric
from analysis.ledger import Ledger
from analysis.ledger.exchange.columns import Record
from analysis.ledger.exchange.merge import FOREIGN_METRICS
from analysis.ledger.schema import digest
from analysis.run_state import RunState
from analysis.tables.spec import Sense
from cse.importers import ForeignRun
from cse.importers.metrics import Asked
from cse.importers.published import TableRow
from cse.importers.seeds import cell_of
from cse.importers.tables import hash_file
from cse_train.fields import Json
from cse_train.results import Protocol

DEV = "train.dev"


@dataclass(frozen=True, kw_only=True)
class Taking:
    """What a person asked for."""

    tool: str
    source: str
    sweep: str
    score: str
    """The metric that becomes the run's best score."""
    is_dev: bool = True
    """Whether runs were picked by the score; a test score stands in for one where the tool has no dev score."""
    better: Sense | None = None
    """Which value is the better one, where a person or the tool says it; of the lower one the sign is turned."""
    span: float | None = None
    """How wide the metric's range is, where a person says it."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The tool's name of a setting -> ours."""
    metrics: Sequence[Asked] = ()
    """What is taken beside the score, each a column of tables."""
    seed: str | None = None
    """The column or setting that says the seed."""
    drop: Sequence[str] = ()
    """Settings and columns that are left out."""
    about: str = ""
    """Whose code with what settings made the runs."""
    licence: str = ""
    row: TableRow | None = None
    """The row of a paper's table of which these are runs."""
    is_local: bool = False
    """Whether the tool's IDs tell runs of one source apart alone, as the numbers in a table's column do."""

    def sign(self, id: str) -> str:
        """24 hexadecimal digits, as ours; the hash of a text that no configuration of ours gives."""
        where = [self.sweep] if self.is_local or self.row else []
        return hashlib.sha256(json.dumps([IMPORTED, self.tool, id, *where]).encode()).hexdigest()[:24]


@dataclass(frozen=True)
class RecordMaker:
    """Makes the records of one import."""

    taking: Taking
    metric: Metric
    beside: Sequence[Metric]
    """What is taken beside the score."""
    stored: Mapping[str, Sequence[Record]]
    """Signature -> scores of an earlier import: a renewed run keeps them."""

    def cell(self, run: ForeignRun, seed: int) -> Record:
        """The run's place in the sweep."""
        cell = cell_of(run) if self.taking.row is None else dict(self.taking.row.cell.key)
        return {"signature": self.taking.sign(run.id), "cell_hash": digest(cell), "cell": cell, "seed": seed}

    def run(self, run: ForeignRun, seed: int) -> Record:
        """The run as a bundle would have it."""
        taking, at = self.taking, run.begun or 0.0
        measured = run.metrics[taking.score]
        examples = run.settings.get("train.examples")
        length = {"examples": examples if isinstance(examples, int) else None, "seconds": run.seconds}
        details = {
            "source": f"{taking.tool} {taking.source}",
            "id": run.id,
            FOREIGN_METRICS: dict(run.metrics),
            **({"row": run.row, "sha256": hash_file(taking.source)} if run.row else {}),
            **({"about": taking.about} if taking.about else {}),
            **({"licence": taking.licence} if taking.licence else {}),
        }
        return {
            "kind": "run",
            "signature": taking.sign(run.id),
            "state": RunState.DONE,
            "attempt": 1,
            "method": str(run.settings.get("method", taking.tool))[:64],
            "seed": seed,
            "config": {**({DEV: taking.score} if taking.is_dev else {}), **run.settings},
            "identity": {IMPORTED: taking.tool},
            **length,
            "best": -measured if self.metric.turned else measured,
            "best_examples": None,
            "folder": None,
            "reason": None,
            "created": at,
            "updated": at + (run.seconds or 0.0),
            "history": [{"attempt": 1, "state": RunState.DONE, "at": at, "reason": f"imported from {taking.tool}"}],
            "attempts": [{"attempt": 1, "details": details, **length, "at": at}],
            "curve": [],
            "scores": self._scores(run, at),
        }

    def _scores(self, run: ForeignRun, at: float) -> list[Record]:
        have = [metric for metric in self.beside if metric.name in run.metrics]
        new = [score_record(m.name, run.metrics[m.name], protocol_of_metric(m), at) for m in have]
        every = {
            (score["suite"], score["protocol_hash"]): score
            for score in (*self.stored.get(self.taking.sign(run.id), ()), *new)
        }
        return [every[key] for key in sorted(every)]

    def sweep(self, cells: Mapping[str, Json], records: Sequence[Json]) -> Record:
        """The sweep that the runs stand in."""
        taking, said = self.taking, spec_of_metric(self.metric)
        seeds = sorted({int(cell["seed"]) for cell in cells.values()})
        about: Json = {"title": f"{taking.tool}'s runs of {taking.source} by {said['score']}", "space": taking.sweep}
        return {
            "kind": "sweep",
            "id": taking.sweep,
            "spec": {
                **about,
                **(taking.row.spec() if taking.row else {}),
                "seeds": seeds,
                IMPORTED: taking.tool,
                **said,
            },
            "created": min(record["created"] for record in records),
            "updated": max(record["updated"] for record in records),
            "cells": [cells[name] for name in sorted(cells)],
            "looks": [],
        }


def score_record(suite: str, value: float | None, protocol: Protocol, at: float) -> Record:
    """A score in the columns of the ledger."""
    files = {"cosines_file": None, "cosines_hash": None}
    facts = dict(protocol.facts)
    return {"suite": suite, "protocol_hash": digest(facts), "value": value, "protocol": facts, **files, "at": at}


def read_scores(ledger: Ledger, signatures: Mapping[str, object]) -> dict[str, list[Record]]:
    """Signature -> the scores that an earlier import brought."""
    stored: dict[str, list[Record]] = {}
    for score in ledger.scores(signatures):
        record = score_record(score.suite, score.value, score.protocol, score.at)
        stored.setdefault(score.signature, []).append(record)
    return stored
