"""Every cell of some tables as a short run: what is planned, what lacks an input, and the line that each gets."""

from pathlib import Path

import pytest

from analysis.ledger import Ledger
from cluster.sweep.events import SweepOutcome
from cse.cli.app import main
from cse.cli.sweeps import variants
from cse.experiments import run as experiments
from search_spaces.catalog import load_all
from tests.commands import printed
from tests.run_values import claim_run, end_run, point_of

SPACE = """version: 1
id: T
method: esimcse
space:
  method.dup_rate: {grid: [0.1, 0.2]}
  train.corpus: {grid: [generated, nli]}
  train.encoder: {grid: [words-l4-h128, large]}
"""
PROFILE = """version: 1
train: {dev: "generated_dev:20", batch_size: 8, evaluations: 20}
substitutions:
  train.encoder: {large: null}
"""
METRICS = {
    "generated_dev:20": 41.5, "loss": 0.351, "loss_contrastive": 0.34, "loss_rtd": 1.21, "alignment": 0.2,
    "uniformity": -1.5, "positive_cosine": 0.9, "negative_cosine": 0.11, "queue_rows": 160.0,
}  # fmt: skip


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A space and a profile; the working folder is empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CSE_DATA", raising=False)
    (tmp_path / "T.yaml").write_text(SPACE)
    (tmp_path / "p.yaml").write_text(PROFILE)
    return str(tmp_path / "T.yaml"), str(tmp_path / "p.yaml")


def trained(request, work):  # type: ignore[no-untyped-def]
    """Ends the first run as done and every other as failed."""
    assert work.suites == {}
    ledger = Ledger.open(request.ledger)
    for number, run in enumerate(work.runs):
        claim = claim_run(ledger, run.signature, run.run.flat(), seed=run.seed, identity=run.identity)
        ledger.add_points(claim, [point_of(8, metrics=METRICS)])
        how = {"state": "failed", "reason": "loss is nan"} if number else {}
        end_run(ledger, claim, examples=8, **how)
    return SweepOutcome(done=1)


def test_a_line_for_each_cell_and_why_others_have_none(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    space, profile = files
    handed = []
    monkeypatch.setattr(experiments, "run_grid", lambda *given: handed.append(given[1].runs) or trained(*given))
    words = ["variants", space, "--profile", profile, "--ledger", "l.db", "--examples", "16", "--out", "variants.md"]
    said = printed(capsys, *words)
    assert [(run.run.train.examples, run.run.train.evaluations, run.seed) for run in handed[0]] == [(16, 2, 0)] * 2
    assert [run.run.options.dup_rate for run in handed[0]] == [0.1, 0.2]
    text = Path("variants.md").read_text()
    assert said.endswith(text)
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    assert lines[0][:6] == ["space", "cell", "method", "state", "dev", "loss"]
    done = next(line for line in lines if line[3] == "done")
    assert done[4:] == ["41.50", "0.351 (contrastive 0.34, rtd 1.21)", "0.2", "-1.50", "0.9", "0.11", "", "160"]
    assert [line[3] for line in lines[2:]].count("missing input") == 2
    assert "- T dup_rate=0.2 corpus=generated encoder=words-l4-h128: failed: loss is nan" in text
    assert "- T train.encoder=large: no counterpart in profile p" in text
    assert "missing input: missing data: train.corpus=nli needs" in text


def test_done_cells_are_not_trained_again(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    space, profile = files
    monkeypatch.setattr(experiments, "run_grid", trained)
    words = ["variants", space, "--profile", profile, "--ledger", "l.db", "--set", "train.corpus=generated"]
    assert "1 run: 0 already in the ledger, 1 to run" in printed(capsys, *words, "--set", "method.dup_rate=0.1")
    monkeypatch.setattr(experiments, "run_grid", lambda *given: pytest.fail("trained again"))
    assert "1/1 already in the ledger, 0 run" in printed(capsys, *words, "--set", "method.dup_rate=0.1")


def test_all_means_the_tables_that_train_on_the_dev_set() -> None:
    kept = {space.id for space in load_all(["all"]) if variants.trains_own_runs(space)}
    assert {"E7", "D8", "S3"} <= kept
    assert not kept & {"C5", "E2", "S8"}


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["variants"], "Missing argument"),
        (["variants", "simcs"], "cse: unknown space: space=simcs; did you mean simcse"),
        (["variants", "simcse"], "cse: no list of cells: space=simcse; "),
        (["train"], "Missing argument"),
        (["train", "simcs"], "cse: unknown method: method=simcs; did you mean simcse?"),
    ],
)
def test_what_to_train_must_be_clear(words: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert line in capsys.readouterr().err
