"""Trainers of other libraries in a sweep, and programs that train several times."""

import datetime
import inspect
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from cse_train.plugins.trainer import TrainerScore
from cse_train.reading import MachineFault
from cse_train.training import program_callback
from cse_train.training.program import ProgramFailed
from cse_train.training.program_child import TimedFolders
from tests.cse_train.training.programs import CALL, Ran, run_program, run_rank

SCRIPT = Path(__file__).with_name("train_pairs.txt").read_text()
"""A script as people write it, which knows nothing of cse."""
MODEL = Path(__file__).with_name("make_pairs.txt").read_text()
"""Makes a small random encoder and rated pairs in a folder."""


def test_transformers_has_the_list_of_default_callbacks_and_the_call_that_are_joined() -> None:
    """Fails by name where a version of transformers has moved what `callback` leans on."""
    trainer: Any = pytest.importorskip("transformers.trainer")
    assert isinstance(getattr(trainer, program_callback.CALLBACK_LIST), list)
    assert "DEFAULT_CALLBACKS +" in inspect.getsource(trainer.Trainer.__init__)
    parameters = inspect.signature(trainer.Trainer.train).parameters
    assert next(iter([*parameters][1:])) == "resume_from_checkpoint"
    assert parameters["resume_from_checkpoint"].default is None


def _run(folder: Path, **given: Any) -> Ran:
    parameters = {"loss": "cosent", "learning_rate": 3e-3, **given.pop("parameters", {})}
    score = TrainerScore(name="dev_spearman_cosine", scale=100)
    return run_program(folder, SCRIPT, score=score, parameters=parameters, seed=1, **given)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sentence_transformers")
    folder = tmp_path_factory.mktemp("pairs")
    subprocess.run([sys.executable, "-c", MODEL], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(900)  # four processes that each import torch and the library
def test_the_score_of_a_script_is_the_one_that_it_has_by_hand_and_a_kill_changes_nothing(made: Path) -> None:
    ran = _run(made)
    words = ["--loss", "cosent", "--learning_rate", "0.003", "--seed", "1", "--output_dir", str(made / "by-hand")]
    done = subprocess.run(
        [sys.executable, "mine.py", *words], cwd=made, check=True, capture_output=True, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert float(done.stdout.split("after training:")[1]) * 100 == ran.points[-1].metrics["dev_spearman_cosine"]
    assert [point.step for point in ran.points] == [13, 26, 39, 52]
    assert ran.outcome.best == max(point.metrics["dev_spearman_cosine"] for point in ran.points)
    best = made / "attempt-1" / "best"
    assert (best / "modules.json").is_file() and (best / "model.safetensors").is_file()

    with pytest.raises(MachineFault):
        _run(made, into="killed-1", parameters={"dies": 45})
    again = _run(made, into="killed-2", resume_from="killed-1", parameters={"dies": 45})
    assert [point.replayed for point in again.points] == [True, True, True, False]
    assert [_facts(point) for point in again.points] == [_facts(point) for point in ran.points]
    assert (made / "killed-2" / "best" / "model.safetensors").read_bytes() == (best / "model.safetensors").read_bytes()


def _facts(point: Any) -> tuple[Any, ...]:
    return point.step, point.examples, point.metrics["dev_spearman_cosine"], point.metrics["loss"], point.best


@pytest.mark.slow
def test_the_schedulers_stop_ends_training_and_saves(made: Path) -> None:
    ran = _run(made, into="stopped", stop=lambda point: point.step == 26)
    assert (ran.outcome.stopped, [point.step for point in ran.points]) == (True, [13, 26])
    state = made / "stopped" / "last" / "output" / "checkpoint-26" / "trainer_state.json"
    assert json.loads(state.read_text())["global_step"] == 26
    assert (made / "stopped" / "best" / "model.safetensors").is_file()


@pytest.mark.slow
def test_another_score_than_the_evaluations_have_is_named(made: Path) -> None:
    with pytest.raises(ValueError, match="its evaluations gave dev_pearson_cosine, dev_spearman_cosine"):
        run_program(
            made, SCRIPT, score=TrainerScore(name="dev_accuracy"), into="other",
            parameters={"loss": "cosent", "learning_rate": 3e-3},
        )  # fmt: skip


GRADIENTS = """
import json, os, sys
import cse, torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments, losses,
)
from transformers import TrainerCallback

rows = [row for row in json.load(open("pairs.json"))[:200] if row["score"] > 0.3]
pairs = Dataset.from_list(rows)
plain = pairs.select_columns(["sentence1", "sentence2"])
rows_a_rank, output = int(sys.argv[2]), sys.argv[-1]
kept = {}


class Keeps(TrainerCallback):
    def on_pre_optimizer_step(self, args, state, control, model, **given):
        trained = [(n.removeprefix("module."), p.grad) for n, p in model.named_parameters() if p.grad is not None]
        kept[name] = {name: gradient.clone() for name, gradient in trained}


def gathered(model):
    return losses.MultipleNegativesRankingLoss(model, gather_across_devices=True)


for name, make, data in [
    ("mean", losses.CosineSimilarityLoss, pairs),
    ("own negatives", losses.MultipleNegativesRankingLoss, plain),
    ("gathered negatives", gathered, plain),
]:
    model = SentenceTransformer("tiny-bert")
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    args = SentenceTransformerTrainingArguments(
        output_dir=output, max_steps=1, per_device_train_batch_size=rows_a_rank, seed=3, report_to="none",
        save_strategy="no", max_grad_norm=0,
    )
    SentenceTransformerTrainer(
        model=model, args=args, train_dataset=data, loss=make(model), callbacks=[Keeps()]
    ).train()
cse.report(1, score=1, fraction=1)
if os.environ.get("RANK", "0") == "0":
    torch.save(kept, f"gradients-{rows_a_rank}.pt")
"""


@pytest.mark.slow
@pytest.mark.timeout(600)  # three processes that each import torch and the library
def test_two_ranks_have_the_gradient_of_one_rank_of_twice_the_batch_where_negatives_are_gathered(made: Path) -> None:
    for ranks, rows in ((1, 16), (2, 8)):
        given = {"into": f"ranks-{ranks}", "score": TrainerScore(name="loss", direction="min")}
        given["parameters"] = {"rows": rows}
        torch.multiprocessing.spawn(run_rank, (ranks, made, GRADIENTS, given), nprocs=ranks)
    one, two = (torch.load(made / f"gradients-{rows}.pt") for rows in (16, 8))
    assert [*one] == [*two] == ["mean", "own negatives", "gathered negatives"]
    apart = {
        loss: max(float((two[loss][name] - one[loss][name]).abs().max()) for name in one[loss])
        / max(float(each.abs().max()) for each in one[loss].values())
        for loss in one
    }
    assert apart["mean"] < 1e-6 and apart["gathered negatives"] < 1e-6
    assert apart["own negatives"] > 0.01, "half of the negatives: the page says so"


FITS_SCRIPT = Path(__file__).with_name("train_fits.txt").read_text()
"""Two Trainers one after the other, in one folder or by way of a saved model, or three folds."""

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
        run_program(tmp_path, FUNCTION + CALL, fits="mean")
    again = run_program(tmp_path, FUNCTION + CALL, fits="mean", into="attempt-2", resume_from="attempt-1")
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
def fits_made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("accelerate")
    folder = tmp_path_factory.mktemp("fits")
    subprocess.run([sys.executable, "-c", MODEL], cwd=folder, check=True, capture_output=True)
    return folder


def run_fits(folder: Path, mode: str, **given: Any) -> Ran:
    given = {"into": mode, **given}
    parameters = {"mode": mode, **({"dies": 9} if given.pop("dies", False) else {})}
    score = TrainerScore(name="dev_spearman_cosine", scale=100)
    return run_program(folder, FITS_SCRIPT, score=score, parameters=parameters, seed=1, **given)


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
def test_two_trainers_one_after_the_other_are_judged_by_both_and_a_kill_changes_nothing(
    fits_made: Path, mode: str
) -> None:
    ran = run_fits(fits_made, mode)
    first, second = _by_hand(fits_made, mode)
    scores = [point.metrics["dev_spearman_cosine"] for point in ran.points]
    assert scores == first + second and ran.outcome.best == max(scores)
    assert [point.examples for point in ran.points] == [333, 667, 1000, 1500, 2000]
    assert [point.step for point in ran.points] == [7, 14, 21, 28, 35]

    (fits_made / "died").unlink(missing_ok=True)
    with pytest.raises(MachineFault):
        run_fits(fits_made, mode, into=f"{mode}-killed", dies=True)
    again = run_fits(fits_made, mode, into=f"{mode}-again", resume_from=f"{mode}-killed", dies=True)
    assert [point.metrics["dev_spearman_cosine"] for point in again.points] == scores
    models = [fits_made / into / "best" / "model.safetensors" for into in (mode, f"{mode}-again")]
    assert models[0].read_bytes() == models[1].read_bytes()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_folds_of_a_trainer_are_refused_until_the_space_says_what_counts(fits_made: Path) -> None:
    with pytest.raises(ProgramFailed, match="two fits: fit 2 begins with weights that no fit before has trained"):
        run_fits(fits_made, "folds", into="refused")
    ran = run_fits(fits_made, "folds", fits="mean")
    bests = [max(fold) for fold in _by_hand(fits_made, "folds")]
    assert ran.outcome.best == sum(bests) / 3
    assert [ran.points[0].metrics[f"fit{number}"] for number in (1, 2, 3)] == bests


TIMED_SCRIPT = """
import argparse, datetime, json, os, time
import cse

parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float)
parser.add_argument("--seed", type=int)
parser.add_argument("--output_dir")
given = parser.parse_args()
weight = json.load(open("data/rows.json"))["weight"] + json.load(open("../beside.json"))
until = FREEZE
while time.time() < until:  # all runs make their folder in the same second
    time.sleep(0.001)
out = os.path.join("out", datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S"))
os.makedirs(out, exist_ok=True)
with open("runs.log", "a") as log:
    log.write("a run\\n")
with open(os.path.join(out, "state.json"), "w") as file:
    json.dump(given.rate * weight, file)
time.sleep(1.5)
with open(os.path.join(out, "state.json")) as file:
    cse.report(1, score=json.load(file), fraction=1)
"""
RANK = """
import sys
import time
from pathlib import Path
from tests.cse_train.training.programs import run_program

folder, rate = Path(sys.argv[1]), float(sys.argv[2])
ran = run_program(folder, (folder / "script").read_text(), into=f"attempt-{rate}", parameters={"rate": rate})
print(ran.outcome.best)
"""


@pytest.mark.timeout(120)
def test_runs_that_name_their_folders_in_the_same_second_have_a_folder_each(tmp_path: Path) -> None:

    folder = tmp_path / "mine"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "rows.json").write_text('{"weight": 2}')
    (tmp_path / "beside.json").write_text("1")
    (folder / "script").write_text(TIMED_SCRIPT.replace("FREEZE", str(int(time.time()) + 12)))
    rates = (1.0, 2.0, 3.0)
    ranks = [
        subprocess.Popen([sys.executable, "-c", RANK, str(folder), str(rate)], stdout=subprocess.PIPE, text=True)
        for rate in rates
    ]
    ended = [float(rank.communicate()[0].split()[-1]) for rank in ranks]
    assert ended == [3.0, 6.0, 9.0]
    folders = sorted((folder / "out").iterdir())
    assert sorted(json.loads((place / "state.json").read_text()) for place in folders) == [3.0, 6.0, 9.0]
    assert (folder / "runs.log").read_text().count("a run") == 3, "a log that all append to is nobody's"


@pytest.mark.parametrize(
    ("form", "named"),
    [
        ("%Y-%m-%d_%H-%M-%S", True), ("%b%d_%H-%M-%S_host", True), ("model-%m%d_%H%M", True), ("%d-%m-%Y_%H-%M", True),
        ("%H-%M-%S", True), ("run_%s", True), ("%Y-%m-%d", False), ("checkpoint-1200", False), ("v2.10", False),
        ("bert-base-110000000", False),
    ],
)  # fmt: skip
def test_names_with_the_time_are_known_and_others_are_left_alone(tmp_path: Path, form: str, named: bool) -> None:

    folders = TimedFolders(tmp_path / "own", "mark", pytest.fail)
    path = tmp_path / datetime.datetime.now().strftime(form) / "model"
    assert (folders._timed(str(path)) == str(path.parent)) is named
    assert folders._timed(str(tmp_path / "own" / path.parent.name)) == ""
