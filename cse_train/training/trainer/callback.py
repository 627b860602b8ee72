"""Joins the Trainer of transformers, and so that of sentence-transformers, in a run's process.

transformers has no public way to give a Trainer that others make a callback. `DEFAULT_CALLBACKS` of its module
`transformers.trainer` is a plain list that every Trainer reads when it is made; this file alone uses it, and
tests/cse_train/training/trainer/test_callback.py fails by name where it has moved.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from cse_train.training.trainer.models import find_checkpoint
from cse_train.training.trainer.trial import Trial, TrialStopped

MODULE = "transformers.trainer"
CALLBACK_LIST = "DEFAULT_CALLBACKS"
EVALUATION = "eval_"
"""What the library puts before the names of an evaluation."""


def watch_import(trial: Trial) -> None:
    """Join every Trainer of this process as soon as it imports the library."""
    if MODULE in sys.modules:
        join(sys.modules[MODULE], trial)
    else:
        sys.meta_path.insert(0, _Finder(lambda module: join(module, trial)))


class _Finder(importlib.abc.MetaPathFinder):
    """Gives the module as Python finds it, and calls a function when it is loaded."""

    def __init__(self, then: Callable[[ModuleType], None]) -> None:
        self._then = then

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        loader: Any = spec.loader if spec else None
        if loader is not None:
            plain = loader.exec_module

            def load(module: ModuleType) -> None:
                plain(module)
                self._then(module)

            loader.exec_module = load
        return spec


def join(module: ModuleType, trial: Trial) -> None:
    """Give each Trainer that is made from now on a callback, and the newest checkpoint to resume from."""
    callbacks = getattr(module, CALLBACK_LIST, None)
    if not isinstance(callbacks, list):
        raise RuntimeError(f"{MODULE}.{CALLBACK_LIST} is gone: this version of transformers cannot be joined")
    callbacks.append(_make_callback(module, trial))
    trainer: Any = vars(module)["Trainer"]
    plain = trainer.train

    def train(self: Any, resume_from_checkpoint: Any = None, **given: Any) -> Any:
        if resume_from_checkpoint is None:
            resume_from_checkpoint = _newest(trial, self.args.output_dir)
        return plain(self, resume_from_checkpoint=resume_from_checkpoint, **given)

    trainer.train = train


def _newest(trial: Trial, output_dir: str) -> str | None:
    """The newest checkpoint in a folder of this run; another run may write into any other."""
    is_ours = Path(output_dir).resolve().is_relative_to(trial.checkpoint_folder.resolve())
    checkpoint = find_checkpoint(Path(output_dir)) if is_ours and trial.resume_from else None
    return str(checkpoint) if checkpoint else None


def _make_callback(module: ModuleType, trial: Trial) -> type:
    """The class, whose base belongs to the library."""
    base: Any = vars(module)["TrainerCallback"]

    class Reports(base):  # type: ignore[misc]
        """Each evaluation is a report; a new best is saved; where the scheduler stops, training ends and saves."""

        stopped = False

        def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            trial.say(world=args.world_size)

        def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **given: Any) -> None:
            seen = {name.removeprefix(EVALUATION): value for name, value in (metrics or {}).items()}
            again = trial.reported is not None and state.global_step <= trial.reported
            if state.global_step == 0 or again:
                return
            if trial.rank == 0 and trial.score_name not in seen:
                trial.say(names=[name for name, value in seen.items() if isinstance(value, int | float)])
                return
            losses = [entry["loss"] for entry in state.log_history if "loss" in entry]
            seen |= {"loss": losses[-1]} if losses and "loss" not in seen else {}
            fraction = min(1.0, state.global_step / max(1, state.max_steps))
            score = float(seen.get(trial.score_name, float("nan")))
            if trial.tell(state.global_step, score, fraction, seen) and args.should_save:
                _save(given["model"], given.get("processing_class"), trial.best_folder)
            if trial.decide():
                self.stopped = control.should_training_stop = control.should_save = True

        def on_train_end(self, *given: Any, **named: Any) -> None:
            if self.stopped:
                raise TrialStopped

    return Reports


def _save(model: Any, processing_class: Any, folder: Path) -> None:
    """The model as its library saves it; the card of sentence-transformers is left out, whose making takes long."""
    if hasattr(model, "save_pretrained"):
        library = type(model).__mro__
        cardless = any(kind.__module__.startswith("sentence_transformers.") for kind in library)
        model.save_pretrained(str(folder), **({"create_model_card": False} if cardless else {}))
        if not cardless and processing_class is not None and hasattr(processing_class, "save_pretrained"):
            processing_class.save_pretrained(str(folder))
    else:
        import torch

        torch.save(model.state_dict(), folder / "model.pt")
