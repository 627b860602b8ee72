"""Training stood in for: a sweep books what `TRUTH` says of each row, with noise and failures that a test asks for."""

import contextlib
import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.ledger import Ledger
from analysis.run_state import RunState
from cluster.sweep.events import Failure, SweepEvent, SweepOutcome
from cse.cli.app import main
from cse.experiments import run as experiments_run
from cse_train.evaluate.score import save_cosines
from cse_train.fields import ConfigError
from tests.run_values import score_of

SUITE = "generated_dev:40"
SPACE = """version: 1
id: {id}
title: {id}, made for a test
method: esimcse
seeds: 2
evaluate: ["generated_dev:40"]
set: {{train.encoder: words-l1-h64, train.corpus: generated, train.dev: "generated_dev:40", train.examples: 128}}
space:
  method.dup_rate: {{grid: {rates}}}
paper:
  citation: "A and B"
  table: "Table 1"
  source: none.txt
  metric: "Spearman x 100"
  columns: ["generated_dev:40"]
  rows:
"""
PUBLISHED = {0.1: 80.0, 0.2: 84.0, 0.3: 86.0, 0.4: 88.0}
TRUTH = {0.1: 80.0, 0.2: 84.0, 0.3: 86.0, 0.4: 81.0}  # above the encoder without training


class NoRay:
    """Stands for Ray, which a sweep starts once it has claimed a run and told all that it tells before."""

    def __init__(self, *given: Any, **named: Any) -> None:
        raise ConfigError(["here Ray would start"])


def refuse_cluster(*given: object, **named: object) -> None:
    """Stands for Ray where none may be asked for."""
    raise AssertionError("a cluster was asked for")


class Sweeps:
    """Stands for training: books what `TRUTH` says, cosines too, and keeps what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked, self.fails, self.protocol = folder, [], set[float](), {"aggregation": "all"}
        self.noise = 0.0
        """Points by which seeds part the rows."""
        self.ends_at: tuple[float, Exception | None] | None = None
        """Before which rate the sweep ends, and by which error; without one, by a signal."""
        self.awaits: dict[float, Path] = {}
        """Files that must be there before runs of a rate begin."""
        self.works_in: tuple[Path, Path] | None = None
        """Where the process works while the sweep runs, as it does while Ray is up, and the file that it waits for."""

    def __call__(self, request, work, *also, source=None):  # type: ignore[no-untyped-def]
        if source is not None:
            return self.drain(source, request, work, also)
        self.asked.append(
            [(run.cell["method.dup_rate"], run.seed, tuple(work.suites[run.signature])) for run in work.runs]
        )
        if self.works_in is None:
            return self.train(work.runs, work.finished, request.ledger, work.suites, also)
        with contextlib.chdir(self.works_in[0]):
            outcome = self.train(work.runs, work.finished, request.ledger, work.suites, also)
            appears(self.works_in[1])
            return outcome

    def train(self, runs, finished, url, suites, also):  # type: ignore[no-untyped-def]
        ledger, failures = Ledger.open(url), []
        for run in (run for run in runs if run.signature not in finished):
            rate = run.cell["method.dup_rate"]
            if rate in self.awaits:
                appears(self.awaits[rate])
            if self.ends_at and rate == self.ends_at[0]:
                if self.ends_at[1]:
                    raise self.ends_at[1]
                return SweepOutcome(done=1, interrupted=True)
            about = {"method": "esimcse", "seed": run.seed, "owner": "me", "identity": run.identity}
            claim = ledger.claim(run.signature, run.run.flat(), provenance={"commit": "c0ffee"}, **about)
            assert claim is not None
            value = (
                TRUTH[rate] + run.seed / 10 + self.noise * np.random.default_rng([run.seed, int(100 * rate)]).normal()
            )
            end = {"examples": 128, "best": value, "best_examples": 128, "seconds": 2.0, "folder": None}
            if rate in self.fails:
                failures.append(Failure(signature=run.signature, reason="NaN loss"))
                ledger.finish(claim, "failed", reason="NaN loss", **end)
                also[0](SweepEvent(kind="failed", signature=run.signature))
                continue
            ledger.finish(claim, "done", **end)
            ledger.add_score(run.signature, score_of(SUITE, value, self.protocol, *self.cosines(run, 90 - value)))
            also[0](SweepEvent(kind="scored", signature=run.signature))
            also[0](SweepEvent(kind="done", signature=run.signature))
        return SweepOutcome(done=len(runs) - len(finished) - len(failures), failures=tuple(failures))

    def drain(self, source, request, work, also):  # type: ignore[no-untyped-def]
        """Runs one by one as a source hands them out, until it has no more."""
        outcome, asked = SweepOutcome(), []
        while (run := source.ask()) is not None:
            asked.append((run.cell["method.dup_rate"], run.seed))
            outcome = self.train([run], (), request.ledger, work.suites, also)
            source.observe(run, RunState.FAILED if outcome.failures else RunState.DONE, 0.0, 128)
        assert source.exhausted()
        self.asked.append(asked)
        return dataclasses.replace(outcome, done=len(asked))

    def cosines(self, run: Any, noise: float) -> tuple[str, str]:
        rng = np.random.default_rng(run.seed)
        gold = np.linspace(0, 5, 200)
        path = self.folder / f"{run.signature}.npz"
        return str(path), save_cosines(path, gold + rng.normal(0, noise / 3, 200), gold)


def appears(path: Path) -> None:
    ends = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < ends, f"{path} was not written while the sweep ran"
        time.sleep(0.02)


@pytest.fixture(autouse=True)
def sweeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sweeps:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CSE_DATA", raising=False)
    stub = Sweeps(tmp_path)
    monkeypatch.setattr(experiments_run, "run_grid", stub)
    return stub


def space(id: str, *rates: float) -> str:
    rows = [
        f"    - {{key: {{method.dup_rate: {rate}}}, cells: {{'generated_dev:40': {PUBLISHED[rate]}}}}}\n"
        for rate in rates
    ]
    Path(f"{id}.yaml").write_text(SPACE.format(id=id, rates=list(rates)) + "".join(rows), encoding="utf8")
    return f"{id}.yaml"


def given(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> tuple[str, list[str]]:
    assert main(["reproduce", *argv]) == code
    said = capsys.readouterr()
    assert "Traceback" not in said.err + said.out
    return said.out, said.err.strip().splitlines()
