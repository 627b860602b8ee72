"""The Trainers of transformers and sentence-transformers join a sweep without an edited line."""

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cse_train.plugins.trainer import TrainerScore
from cse_train.reading import MachineFault
from cse_train.training.trainer import callback
from tests.cse_train.training.trainer.programs import Ran, run_program

SCRIPT = Path(__file__).with_name("train_pairs.txt").read_text()
"""A script as people write it, which knows nothing of cse."""
MODEL = Path(__file__).with_name("make_pairs.txt").read_text()
"""Makes a small random encoder and rated pairs in a folder."""


def test_transformers_has_the_list_of_default_callbacks_and_the_call_that_are_joined() -> None:
    """Fails by name where a version of transformers has moved what `callback` leans on."""
    trainer: Any = pytest.importorskip("transformers.trainer")
    assert isinstance(getattr(trainer, callback.CALLBACK_LIST), list)
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
