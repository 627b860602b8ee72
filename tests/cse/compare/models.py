"""Cells of E7 with booked runs and kept cosines, which tests of `cse compare` and `cse gate` ask about."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.ledger import Ledger
from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import load_pairs
from cse_train.evaluate.score import save_cosines
from search_spaces.catalog import load_space
from search_spaces.cells import Cell, resolve
from search_spaces.identity.signature import signature
from tests.commands import printed
from tests.run_values import book_run, score_of

Capture = pytest.CaptureFixture[str]
Names = tuple[list[str], list[str]]
"""Signatures of the runs of two cells."""
INPUTS = {"encoder": "e" * 64, "tokenizer": "t", "corpus": "c", "dev": "d"}
SET = "generated_dev:30"
PROTOCOL = {"suite": SET, "pooler": "cls", "max_length": 32, "precision": "fp32", "data_hash": ""}
A, B, C = "E7:dup_rate=0.24", "E7:dup_rate=0.08", "E7:dup_rate=0.32"


def cell(rate: float) -> Cell:
    return next(cell for cell in resolve(load_space("E7")).cells() if cell.key == {"method.dup_rate": rate})


def book(
    ledger: Ledger, rate: float, values: Sequence[float], inputs: dict[str, str] = INPUTS, first: int = 0
) -> list[str]:
    """Done runs of a cell of E7 with these best dev scores, seeds counted from `first`; their signatures.

    Cells other than A and B stand in sweeps of their own: of a sweep with three, each is the pick of two.
    """
    sweep, names = "E7" if rate in (0.24, 0.08) else f"E7 {rate:g}", []
    ledger.record_sweep(sweep, ledger.sweep_spec("E7"))
    for seed, value in enumerate(values, first):
        run = cell(rate).run(seed)
        name = signature(run, inputs)
        book_run(ledger, name, run.flat(), seed=seed, identity=inputs, best=value, folder=f"runs/{name}")
        ledger.link(sweep, [(name, cell(rate).key, seed)])
        names.append(name)
    return names


def score(ledger: Ledger, names: Sequence[str], noise: float, suite: str = SET, **protocol: object) -> None:
    """Kept cosines on a set that is made here: grades with noise."""
    pairs = load_pairs(SET, DataPaths())
    generator = np.random.default_rng(round(100 * noise))
    for name in names:
        file = Path("results/runs", name, "scores", f"{suite.replace(':', '-')}.npz").resolve()
        file.parent.mkdir(parents=True, exist_ok=True)
        cosines = pairs.gold + noise * generator.normal(size=len(pairs))
        digest = save_cosines(file, cosines, pairs.gold)
        about = PROTOCOL | {"suite": suite, "data_hash": pairs.content_hash} | protocol
        ledger.add_score(name, score_of(suite, 100 - 10 * noise, about, file, digest))


def facts(capsys: Capture, *argv: str, code: int = 0) -> Any:
    return json.loads(printed(capsys, *argv, "--format", "json", code=code))
