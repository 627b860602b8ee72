"""Adds a callback to every Trainer of transformers, and so of sentence-transformers, in a run's process.

transformers has no public way to give a Trainer that others make a callback. `DEFAULT_CALLBACKS` of its module
`transformers.trainer` is a plain list that every Trainer reads when it is made; this file alone uses it, and
tests/cse_train/training/test_callback.py fails by name where it has moved.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from cse_train.training.program_folder import find_checkpoint, mark_checkpoint
from cse_train.training.trial import FITS_ADVICE, Trial, TrialStopped, read_number

MODULE = "transformers.trainer"
CALLBACK_LIST = "DEFAULT_CALLBACKS"
EVALUATION = "eval_"
"""Prefix that transformers puts before the names of an evaluation's metrics."""


def watch_import(trial: Trial) -> None:
    """Adds the trial's callback to every Trainer as soon as this process imports transformers' module."""
    if MODULE in sys.modules:
        join(sys.modules[MODULE], trial)
    else:
        sys.meta_path.insert(0, _Finder(lambda module: join(module, trial)))


class _Finder(importlib.abc.MetaPathFinder):
    """Import hook that finds the module as Python does, and calls a function once the module is loaded."""

    def __init__(self, action: Callable[[ModuleType], None]) -> None:
        self._action = action

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != MODULE:
            return None
        sys.meta_path.remove(self)  # before `find_spec`, which asks every finder in turn
        spec = importlib.util.find_spec(name)
        loader: Any = spec.loader if spec else None
        if loader is not None:
            original = loader.exec_module

            def load(module: ModuleType) -> None:
                original(module)
                self._action(module)

            loader.exec_module = load
        return spec


def join(module: ModuleType, trial: Trial) -> None:
    """Gives each Trainer that is made from now on the trial's callback, and the newest checkpoint to resume from."""
    callbacks = getattr(module, CALLBACK_LIST, None)
    if not isinstance(callbacks, list):
        raise RuntimeError(f"{MODULE}.{CALLBACK_LIST} is gone: this version of transformers cannot be joined")
    fits = _Fits(trial)
    callbacks.append(_make_callback(module, trial, fits))
    trainer: Any = vars(module)["Trainer"]
    original = trainer.train

    def train(self: Any, resume_from_checkpoint: Any = None, **options: Any) -> Any:
        fits.by_script = resume_from_checkpoint not in (None, False)
        if resume_from_checkpoint is None:
            resume_from_checkpoint = _newest(trial, fits.count, self.args.output_dir)
        return original(self, resume_from_checkpoint=resume_from_checkpoint, **options)

    trainer.train = train


def _newest(trial: Trial, number: int, output_dir: str) -> str | None:
    """Returns the newest checkpoint of fit `number` in a folder of this run; None for other folders.

    Another run may write into any other folder.
    """
    is_own = Path(output_dir).resolve().is_relative_to(trial.checkpoint_folder.resolve())
    checkpoint = find_checkpoint(Path(output_dir), number) if is_own and trial.resume_from else None
    return str(checkpoint) if checkpoint else None


class _Fits:
    """Counts the calls of `Trainer.train` in this process, and whether one continues what an earlier one has learnt."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._first: set[Weights] = set()
        self._learnt: set[Weights] = set()
        """Parameters that training has changed, as they were at evaluations, checkpoints and ends."""
        self.count = 0
        """Number of fits that have begun."""
        self._end = 0
        self.by_script = False
        """True if the script itself names the checkpoint from which `train` resumes."""
        self._is_stage = True
        """True if this fit is the first, or begins with weights that an earlier one has learnt."""
        self._has_score = False
        """True if an earlier fit has reported a score."""

    def begin(self, model: Any, step: int) -> None:
        """Records that a call of `train` has begun at a step of its own count."""
        weights = _describe_weights(model)
        if self.count and not (self.by_script and step):  # a script that resumes its own checkpoint counts on
            self._trial.begin_fit(self._end)
            self._is_stage = step > 0 or not self._learnt.isdisjoint(weights)
        self.count += 1
        self._first, self._has_score = weights, self._trial.reported is not None
        if step:  # its checkpoint is something learnt
            self._learnt |= weights

    def note(self, model: Any, step: int) -> None:
        """Records the model at a step of this fit: it may be saved, and trained further by a later fit."""
        self._learnt |= _describe_weights(model) - self._first
        self._end = self._trial.steps_before + step

    def require_one_score(self) -> None:
        """Raises ValueError if this fit, of new weights, reports although an earlier fit has reported a score."""
        trial = self._trial
        if self._has_score and not (self._is_stage or trial.fits):
            line = f"two fits: fit {trial.fit + 1} begins with weights that no fit before has trained"
            raise ValueError(f"{line}, and both have the score {trial.score_name}; say in the space {FITS_ADVICE}")


Weights = tuple[tuple[int, ...], float]
"""Fingerprint of a parameter: its shape and the sum of its numbers."""


def _describe_weights(model: Any) -> set[Weights]:
    """Returns shape and sum of each parameter: enough to distinguish a trained tensor from its first values."""
    return {(tuple(parameter.shape), float(parameter.detach().double().sum())) for parameter in model.parameters()}


def _make_callback(module: ModuleType, trial: Trial, fits: _Fits) -> type:
    """Builds the callback's class, whose base class belongs to transformers."""
    base: Any = vars(module)["TrainerCallback"]

    class Reports(base):  # type: ignore[misc]
        """Callback that reports each evaluation, saves each new best model, and stops when the scheduler says so."""

        stopped = False

        def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            trial.say(world=args.world_size)
            fits.begin(others["model"], state.global_step)

        def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            fits.note(others["model"], state.global_step)
            if args.should_save:
                mark_checkpoint(Path(args.output_dir), state.global_step, trial.fit)

        def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **others: Any) -> None:
            values = {name.removeprefix(EVALUATION): metric for name, metric in (metrics or {}).items()}
            if state.global_step == 0:
                return
            fits.note(others["model"], state.global_step)
            if trial.reported is not None and trial.steps_before + state.global_step <= trial.reported:
                return
            if trial.rank == 0 and trial.score_name not in values:
                trial.say(names=[name for name, metric in values.items() if read_number(metric) is not None])
                return
            fits.require_one_score()
            losses = [entry["loss"] for entry in state.log_history if "loss" in entry]
            values |= {"loss": losses[-1]} if losses and "loss" not in values else {}
            fraction = min(1.0, state.global_step / max(1, state.max_steps))
            score = float("nan") if (number := read_number(values.get(trial.score_name))) is None else number
            if trial.tell(state.global_step, score, fraction, values) and args.should_save:
                _save(others["model"], others.get("processing_class"), trial.best_folder)
            if trial.decide():
                self.stopped = control.should_training_stop = control.should_save = True

        def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            fits.note(others["model"], state.global_step)
            if self.stopped:
                raise TrialStopped

    return Reports


def _save(model: Any, processing_class: Any, folder: Path) -> None:
    """Saves the model as its library does, without sentence-transformers' model card, whose making takes long."""
    if hasattr(model, "save_pretrained"):
        library = type(model).__mro__
        cardless = any(kind.__module__.startswith("sentence_transformers.") for kind in library)
        model.save_pretrained(str(folder), **({"create_model_card": False} if cardless else {}))
        if not cardless and processing_class is not None and hasattr(processing_class, "save_pretrained"):
            processing_class.save_pretrained(str(folder))
    else:
        import torch

        torch.save(model.state_dict(), folder / "model.pt")
