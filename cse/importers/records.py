"""Converts runs of another tool into ledger records; the same run always gets the same signature."""

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
from cse.importers.metrics import DeclaredMetric
from cse.importers.published import TableRow
from cse.importers.seeds import cell_of
from cse.importers.tables import hash_file
from cse_train.fields import Json
from cse_train.results import Protocol

DEV = "train.dev"


@dataclass(frozen=True, kw_only=True)
class ImportRequest:
    """Settings of one `cse import`: the tool and source, the sweep, and which values are scores, settings and seeds."""

    tool: str
    source: str
    sweep: str
    score: str
    """Name of the metric that becomes each run's best score."""
    is_dev: bool = True
    """True if runs were picked by the score; False if a test score replaces a dev score that the tool lacks."""
    better: Sense | None = None
    """Better direction of the score, where user or tool declares it; scores that should be low are stored negated."""
    span: float | None = None
    """Width of the metric's range, where the user declares it."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The tool's name of a setting -> its name in cse-search."""
    metrics: Sequence[DeclaredMetric] = ()
    """Further metrics that become columns of tables."""
    seed: str | None = None
    """Name of the column or setting that holds the seed."""
    drop: Sequence[str] = ()
    """Settings and columns to leave out."""
    about: str = ""
    """Free text on the code and settings that made the runs."""
    licence: str = ""
    row: TableRow | None = None
    """Row of a paper's table to which the runs belong."""
    is_local: bool = False
    """True if the tool's IDs are unique only within one source, like the row numbers of a table."""

    def sign(self, id: str) -> str:
        """Returns the signature of an imported run: 24 hex digits, hashed from a text that no trained configuration
        produces."""
        scope = [self.sweep] if self.is_local or self.row else []
        return hashlib.sha256(json.dumps([IMPORTED, self.tool, id, *scope]).encode()).hexdigest()[:24]


@dataclass(frozen=True)
class RecordMaker:
    """Builds the ledger records of one import."""

    request: ImportRequest
    metric: Metric
    beside: Sequence[Metric]
    """Metrics that are imported in addition to the score."""
    stored: Mapping[str, Sequence[Record]]
    """Signature -> scores from earlier imports, which an imported run keeps."""

    def cell(self, run: ForeignRun, seed: int) -> Record:
        """Returns the record that links a run to its cell of the sweep."""
        cell = cell_of(run) if self.request.row is None else dict(self.request.row.cell.key)
        return {"signature": self.request.sign(run.id), "cell_hash": digest(cell), "cell": cell, "seed": seed}

    def run(self, run: ForeignRun, seed: int) -> Record:
        """Returns the run as a record, as a bundle would contain it."""
        request, at = self.request, run.begun or 0.0
        measured = run.metrics[request.score]
        examples = run.settings.get("train.examples")
        length = {"examples": examples if isinstance(examples, int) else None, "seconds": run.seconds}
        details = {
            "source": f"{request.tool} {request.source}",
            "id": run.id,
            FOREIGN_METRICS: dict(run.metrics),
            **({"row": run.row, "sha256": hash_file(request.source)} if run.row else {}),
            **({"about": request.about} if request.about else {}),
            **({"licence": request.licence} if request.licence else {}),
        }
        return {
            "kind": "run",
            "signature": request.sign(run.id),
            "state": RunState.DONE,
            "attempt": 1,
            "method": str(run.settings.get("method", request.tool))[:64],
            "seed": seed,
            "config": {**({DEV: request.score} if request.is_dev else {}), **run.settings},
            "identity": {IMPORTED: request.tool},
            **length,
            "best": -measured if self.metric.turned else measured,
            "best_examples": None,
            "folder": None,
            "reason": None,
            "created": at,
            "updated": at + (run.seconds or 0.0),
            "history": [{"attempt": 1, "state": RunState.DONE, "at": at, "reason": f"imported from {request.tool}"}],
            "attempts": [{"attempt": 1, "details": details, **length, "at": at}],
            "curve": [],
            "scores": self._scores(run, at),
        }

    def _scores(self, run: ForeignRun, at: float) -> list[Record]:
        metrics = [metric for metric in self.beside if metric.name in run.metrics]
        new = [score_record(m.name, run.metrics[m.name], protocol_of_metric(m), at) for m in metrics]
        scores = {
            (score["suite"], score["protocol_hash"]): score
            for score in (*self.stored.get(self.request.sign(run.id), ()), *new)
        }
        return [scores[key] for key in sorted(scores)]

    def sweep(self, cells: Mapping[str, Json], records: Sequence[Json]) -> Record:
        """Returns the record of the sweep that contains the runs."""
        request, declaration = self.request, spec_of_metric(self.metric)
        seeds = sorted({int(cell["seed"]) for cell in cells.values()})
        about: Json = {
            "title": f"{request.tool}'s runs of {request.source} by {declaration['score']}",
            "space": request.sweep,
        }
        return {
            "kind": "sweep",
            "id": request.sweep,
            "spec": {
                **about,
                **(request.row.spec() if request.row else {}),
                "seeds": seeds,
                IMPORTED: request.tool,
                **declaration,
            },
            "created": min(record["created"] for record in records),
            "updated": max(record["updated"] for record in records),
            "cells": [cells[name] for name in sorted(cells)],
            "looks": [],
        }


def score_record(suite: str, value: float | None, protocol: Protocol, at: float) -> Record:
    """Returns a score as a record with the columns of the ledger."""
    files = {"cosines_file": None, "cosines_hash": None}
    facts = dict(protocol.facts)
    return {"suite": suite, "protocol_hash": digest(facts), "value": value, "protocol": facts, **files, "at": at}


def read_scores(ledger: Ledger, signatures: Mapping[str, object]) -> dict[str, list[Record]]:
    """Returns signature -> score records from earlier imports."""
    stored: dict[str, list[Record]] = {}
    for score in ledger.scores(signatures):
        record = score_record(score.suite, score.value, score.protocol, score.at)
        stored.setdefault(score.signature, []).append(record)
    return stored
