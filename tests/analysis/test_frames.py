"""A ledger as frames: every run, point and score is there, under the names that tables use."""

import contextlib
from pathlib import Path

import pytest

from analysis import frames
from analysis.ledger import Ledger, LedgerError
from tests import synthetic_ledger


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic_ledger.write(tmp_path_factory.mktemp("frames"), runs=40, points=4)


def test_a_mean_over_seeds_by_a_setting_is_one_line(ledger: Path) -> None:
    found = frames.runs(ledger, synthetic_ledger.SWEEP)
    opened = Ledger.open(ledger, create=False)
    rows = opened.runs()
    opened.close()
    assert len(found) == len(rows) == 40 and list(found["signature"]) == [row.signature for row in rows]
    rate = rows[0].config["train.learning_rate"]
    expected = [row.best for row in rows if row.config["train.learning_rate"] == rate and row.best is not None]
    means = found.groupby("train.learning_rate")["best"].mean()
    assert means[rate] == pytest.approx(sum(expected) / len(expected))


def test_data_and_code_of_a_run_are_columns(tmp_path: Path) -> None:
    """A mean over runs on two corpora would be of nothing."""
    with contextlib.closing(Ledger.open(tmp_path / "ledger.db")) as opened:
        for name, corpus, noted in (("one", "a", {"method_version": 2}), ("two", "b", {})):
            inputs = {"corpus": corpus, "dev": "d"}
            opened.claim(name, {}, method="simcse", seed=0, owner="me", identity=inputs, provenance=noted)
    found = frames.runs(tmp_path / "ledger.db").set_index("signature")
    assert found["input.corpus"].to_dict() == {"one": "a", "two": "b"} and set(found["input.dev"]) == {"d"}
    assert found["version"]["one"] == 2 and found["version"].isna()["two"]


def test_curves_and_scores_join_the_runs(ledger: Path) -> None:
    runs, curves, scores = frames.runs(ledger), frames.curves(ledger), frames.scores(ledger)
    done = runs[runs["state"] == "done"].set_index("signature")
    last = curves.sort_values("examples").groupby("signature")["best"].last()
    assert last[done.index].tolist() == pytest.approx(done["best"].tolist())
    joined = scores.set_index("signature")["value"]
    assert joined[done.index].tolist() == done["score.sts_dev"].tolist()
    assert set(scores["protocol.split"]) == {"dev"}


def test_an_absent_ledger_and_an_unknown_sweep_are_named(ledger: Path, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="unknown sweep: sweep=none; the ledger has rows"):
        frames.curves(ledger, "none")
    with pytest.raises(LedgerError, match="does not exist"):
        frames.runs(tmp_path / "none.db")
