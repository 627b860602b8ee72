"""Programs that train several times: stages count on one axis, folds and last fits where the space says so."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cse_train.plugins.trainer import TrainerScore
from cse_train.reading import MachineFault
from cse_train.training.program import ProgramFailed
from tests.cse_train.training.programs import Ran, run_program

SCRIPT = Path(__file__).with_name("train_fits.txt").read_text()
"""Two Trainers one after the other, in one folder or by way of a saved model, or three folds."""
MODEL = Path(__file__).with_name("make_pairs.txt").read_text()

FOLDS = """
import cse
for number, scores in enumerate([[1.0, 4.0], [2.0, 1.5], [0.5, 3.0]], 1):
    for step, score in enumerate(scores, 1):
        if cse.report(step * 10, score=score, fraction=step / 2, fit=number):
            (cse.best_folder() / "model.txt").write_text(f"{number} {step}")
"""


def test_folds_are_averaged_and_last_fits_count_alone_where_the_space_says_so(tmp_path: Path) -> None:
    mean = run_program(tmp_path, FOLDS, fits="mean")
    (point,) = mean.points
    assert point.metrics == {"fit1": 4.0, "fit2": 2.0, "fit3": 3.0, "score": 3.0}
    assert (mean.outcome.best, mean.outcome.examples, point.best_examples) == (3.0, 1000, 1000)
    assert (tmp_path / "attempt-1" / "best" / "model.txt").read_text() == "1 2"

    last = run_program(tmp_path, FOLDS, fits="last", into="attempt-2")
    assert [(p.examples, p.metrics["score"], p.best) for p in last.points] == [(500, 0.5, 0.5), (1000, 3.0, 3.0)]
    assert (last.outcome.best, last.outcome.examples) == (3.0, 1000)
    assert (tmp_path / "attempt-2" / "best" / "model.txt").read_text() == "3 2"

    loss = TrainerScore(name="score", direction="min")
    assert run_program(tmp_path, FOLDS, fits="mean", into="attempt-3", score=loss).outcome.best == -(1 + 1.5 + 0.5) / 3


FUNCTION = """
import os

def train(trial):
    state = trial.checkpoint_folder / "state.txt"
    first = int(state.read_text()) if trial.resume_from else 1
    for fold in range(first, 4):
        for step in (1, 2):
            scores = [[1.0, 4.0], [2.0, 1.5], [0.5, 3.0]][fold - 1]
            trial.report(step, score=scores[step - 1], fraction=step / 2, fit=fold)
            if (fold, step) == (2, 1) and not trial.resume_from:
                os.kill(os.getpid(), 9)
        state.write_text(str(fold + 1))
"""


def test_folds_that_ended_before_a_kill_count_though_only_the_rest_is_trained(tmp_path: Path) -> None:
    with pytest.raises(MachineFault):
        run_program(tmp_path, FUNCTION, fits="mean", function="train")
    again = run_program(tmp_path, FUNCTION, fits="mean", function="train", into="attempt-2", resume_from="attempt-1")
    assert again.points[0].metrics == {"fit1": 4.0, "fit2": 2.0, "fit3": 3.0, "score": 3.0}


WRONG = [
    ("cse.report(1, score=1, fraction=1)", "mean", "no fit: report(step=1) without fit=; number the fits from 1"),
    ("cse.report(1, score=1, fraction=1, fit=1)", "", "two fits: report(fit=1); say in the space `fits: mean`"),
    ("for n in (2, 1): cse.report(1, score=1, fraction=1, fit=n)", "last", "fit twice: report(fit=1) after fit 2"),
    ("for _ in (1, 2): cse.report(2, score=1, fraction=1)", "", "say in the space what counts of several fits"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "fits", "line"), WRONG, ids=[line[:30] for _, _, line in WRONG])
def test_reports_of_fits_that_nobody_can_count_are_told_in_one_line(
    tmp_path: Path, text: str, fits: str, line: str
) -> None:
    with pytest.raises(ProgramFailed) as error:
        run_program(tmp_path, f"import cse\n{text}", fits=fits)
    assert line in str(error.value) and "\n" not in str(error.value)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("accelerate")
    folder = tmp_path_factory.mktemp("fits")
    subprocess.run([sys.executable, "-c", MODEL], cwd=folder, check=True, capture_output=True)
    return folder


def _run(folder: Path, mode: str, **given: Any) -> Ran:
    given = {"into": mode, **given}
    parameters = {"mode": mode, **({"dies": 9} if given.pop("dies", False) else {})}
    score = TrainerScore(name="dev_spearman_cosine", scale=100)
    return run_program(folder, SCRIPT, score=score, parameters=parameters, seed=1, **given)


def _by_hand(folder: Path, mode: str) -> list[list[float]]:
    """The evaluations of each fit, times 100."""
    words = ["--mode", mode, "--seed", "1", "--output_dir", str(folder / f"{mode}-by-hand")]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "mine.py", *words], cwd=folder, check=True, capture_output=True, text=True, env=environment
    )
    fits: list[list[float]] = json.loads(done.stdout.split("evaluations:")[1])
    return [[100 * value for value in fit] for fit in fits]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["stages", "saved"])
def test_two_trainers_one_after_the_other_are_judged_by_both_and_a_kill_changes_nothing(made: Path, mode: str) -> None:
    ran = _run(made, mode)
    first, second = _by_hand(made, mode)
    scores = [point.metrics["dev_spearman_cosine"] for point in ran.points]
    assert scores == first + second and ran.outcome.best == max(scores)
    assert [point.examples for point in ran.points] == [333, 667, 1000, 1500, 2000]
    assert [point.step for point in ran.points] == [7, 14, 21, 28, 35]

    (made / "died").unlink(missing_ok=True)
    with pytest.raises(MachineFault):
        _run(made, mode, into=f"{mode}-killed", dies=True)
    again = _run(made, mode, into=f"{mode}-again", resume_from=f"{mode}-killed", dies=True)
    assert [point.metrics["dev_spearman_cosine"] for point in again.points] == scores
    models = [made / into / "best" / "model.safetensors" for into in (mode, f"{mode}-again")]
    assert models[0].read_bytes() == models[1].read_bytes()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_folds_of_a_trainer_are_refused_until_the_space_says_what_counts(made: Path) -> None:
    with pytest.raises(ProgramFailed, match="two fits: fit 2 begins with weights that no fit before has trained"):
        _run(made, "folds", into="refused")
    ran = _run(made, "folds", fits="mean")
    bests = [max(fold) for fold in _by_hand(made, "folds")]
    assert ran.outcome.best == sum(bests) / 3
    assert [ran.points[0].metrics[f"fit{number}"] for number in (1, 2, 3)] == bests
