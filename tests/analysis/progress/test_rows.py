"""What is read of each database: JSON columns as text, totals of runs that go on, an order."""

import pytest

from analysis.ledger import Ledger
from analysis.ledger.database import connect, transaction
from analysis.progress import rows as progress_rows
from analysis.progress.rows import ProgressRow
from analysis.run_state import RunState
from analysis.sweep_spec import SweepSpec

CONFIG = {"train.examples": 100, "train.batch_size": 16, "train.dev": "sts_dev"}


def test_rows_of_every_state(ledger: Ledger, ledger_url: str) -> None:
    ledger.record_sweep("s", SweepSpec({"title": "s"}))
    cells = [{"x": 2, "y": None}, {"x": 1, "y": "é"}]
    ledger.link("s", [(f"run{seed}{cell['x']}", cell, seed) for cell in cells for seed in (1, 0)])
    claims = [
        ledger.claim(name, CONFIG, method="simcse", seed=0, owner="me", identity=identity, provenance={})
        for name, identity in (("run01", {"corpus": "c"}), ("run11", {"examples": 40}), ("run02", {"corpus": "c"}))
    ]
    done, goes_on, lost = claims
    assert done is not None and goes_on is not None and lost is not None
    ledger.finish(done, "done", examples=90, best=50.5, best_examples=64, seconds=1.0, folder=None)
    ledger.release(lost)
    engine = connect(ledger_url, create=False)
    with transaction(engine) as connection:
        rows = progress_rows.rows(connection)["s"]
    engine.dispose()
    assert [(row.signature, row.cell, row.seed) for row in rows] == [
        (f"run{seed}{cell['x']}", cell, seed) for cell in reversed(cells) for seed in (0, 1)
    ]
    states = {row.signature: (row.state, row.examples, row.total, row.best, dict(row.identity)) for row in rows}
    assert states == {
        "run01": ("done", 90, 90, 50.5, {"corpus": "c"}),
        "run11": ("claimed", 0, 32, None, {"examples": 40}),
        "run02": ("lost", 0, 96, None, {"corpus": "c"}),
        "run12": ("unclaimed", 0, None, None, {}),
    }


@pytest.mark.parametrize(
    ("state", "way"), [("done", 1.0), ("stopped", 1.0), ("failed", 0.0), ("running", 0.5), ("lost", 0.5)]
)
def test_a_failed_run_fills_no_bar(state: str, way: float) -> None:
    """16 failed and none done of 24 were shown as two thirds."""
    row = ProgressRow(sweep="s", signature="r", cell={}, seed=0, state=RunState(state), examples=50, total=100)
    assert row.way == way
