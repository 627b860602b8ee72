"""The Trainers of transformers and sentence-transformers join a sweep without an edited line."""

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from cse_train.plugins.trainer import TrainerScore
from cse_train.reading import MachineFault
from cse_train.training import program_callback
from tests.cse_train.training.programs import Ran, run_program, run_rank

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
