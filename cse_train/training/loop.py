"""Trains one run in pure torch, without Ray: steps, dev evaluations, checkpoints, exact resume."""

import hashlib
import json
import logging
import math
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cse_train import checkpoint, distributed, random_streams
from cse_train.config import RunConfig, count_examples, effective, evaluation_steps, steps_in
from cse_train.data_paths import DataPaths
from cse_train.encoder import compact_vocabulary
from cse_train.encoder.backbone import load_backbone
from cse_train.evaluate.dev import DevEvaluator, dev_evaluator
from cse_train.evaluate.embedding import NotFinite, evaluating
from cse_train.fields import ConfigError
from cse_train.files import replace_file
from cse_train.methods.base import Method, load_method
from cse_train.numerics import Diverged, autocast, fast_fp32, keep_freed_memory, precision_of, tf32
from cse_train.results import Outcome, Point
from cse_train.soundness import CorruptCheckpoint, reading, require_fit
from cse_train.text.corpora import rows_of
from cse_train.training.async_checkpoints import Checkpoints
from cse_train.training.batches import Batches, UpcomingBatches
from cse_train.training.fit import check_fit, count_every_update, settle_graph, settle_precision
from cse_train.training.optimiser import clip_gradients, learning_rate, optimiser_of, set_step
from cse_train.training.saver import SAVE_MINUTES, Saver

log = logging.getLogger(__name__)


Report = Callable[[Point], bool]
"""Function that every rank calls after each evaluation; returning True stops the run."""


def train(
    run: RunConfig,
    paths: DataPaths,
    folder: Path,
    report: Report,
    resume_from: Path | None = None,
    signature: str | None = None,
    save_minutes: float = SAVE_MINUTES,
) -> Outcome:
    """Trains `run` in `folder`, resuming from its last checkpoint there, or else from the one in `resume_from`.

    Checkpoints carry the `signature` that the run has in a ledger, whose folders are that run's alone: one of another
    run is skipped there, as a damaged one is. Without it they carry a digest of configuration and inputs, and a folder
    with a checkpoint of another run is refused. They are written behind the steps, every `save_minutes` at most, and
    when the run ends, also by an error or an interrupt; with 0 at every evaluation, for which the run waits.

    Every rank of a process group calls this with the same arguments. Raises ConfigError for what the user can fix,
    Diverged for a loss that is not finite, OSError for a full disk.
    """
    keep_freed_memory()
    run = count_examples(run, lambda: rows_of(run.train.corpus, paths))
    with fast_fp32(), Saver(save_minutes) as saver:
        session = Session.open(run, paths, folder, signature, saver)
        if signature is None and checkpoint.is_of_another(folder, session.signature):
            line = f"another run: folder={folder} has checkpoints of another configuration or of other data"
            raise ConfigError([f"{line}; give another folder, or delete it"])
        session.resume(resume_from)
        outcome = session.go(report)
        session.checkpoints.finish()
        return outcome


def digest(run: RunConfig, *inputs: str) -> str:
    """Returns 24 hexadecimal digits of a run's configuration, its method's version and its inputs' content hashes."""
    identity = {"version": run.options.version(), **effective(run.flat()), "inputs": inputs}
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:24]


@dataclass
class Window:
    """Sums of the step metrics since the last evaluation; they stay on the device."""

    steps: int = 0
    sums: dict[str, Tensor] = field(default_factory=dict)

    def add(self, metrics: dict[str, Tensor]) -> None:
        self.steps += 1
        values = {name: value.detach() for name, value in metrics.items()}
        if self.sums.keys() == values.keys():
            torch._foreach_add_(list(self.sums.values()), [values[name] for name in self.sums])
            return
        for name, value in values.items():
            self.sums[name] = self.sums[name] + value if name in self.sums else value.clone()

    def means(self) -> dict[str, float]:
        """Returns the means over steps and ranks, and empties the window."""
        names = sorted(self.sums)
        means = distributed.average(torch.stack([self.sums[name].float() for name in names]) / self.steps).tolist()
        self.steps, self.sums = 0, {}
        return dict(zip(names, means, strict=True))


@dataclass
class Session:
    """All parts of a training run (model, optimiser, batches, evaluator, checkpoints) and its position."""

    run: RunConfig
    folder: Path
    device: torch.device
    model: Method[Any]
    trained: nn.Module
    optimiser: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    batches: UpcomingBatches
    evaluator: DevEvaluator
    signature: str
    checkpoints: Checkpoints
    step: int = 0
    seconds: float = 0.0
    clock: float = 0.0
    """Clock at the last evaluation, up to which `seconds` has been counted."""
    points: list[Point] = field(default_factory=list)

    @classmethod
    def open(
        cls,
        run: RunConfig,
        paths: DataPaths,
        folder: Path,
        signature: str | None = None,
        saver: Saver | None = None,
    ) -> "Session":
        """Loads data and weights; nothing is trained yet. Without `saver` the session waits for each checkpoint."""
        device = distributed.device()
        run = settle_precision(run, device)
        method = load_method(run.method)
        backbone = load_backbone(run.train.encoder, run.train.dropout, run.train.prompt)
        check_fit(run, backbone)
        unused = backbone.prompts.unused(backbone.prompt, "train.prompt", f"train.encoder={backbone.name}")
        if unused and run.train.prompt is None and distributed.rank() == 0:
            log.warning(unused)
        limit = min(run.train.dev_max_length, getattr(backbone.encoder, "positions", None) or run.train.dev_max_length)
        evaluator = dev_evaluator(run.train.dev, paths, backbone.tokenizer, limit, backbone.prompt)
        batches = Batches.open(run, paths, backbone)
        inputs = (backbone.content_hash, batches.store.content_hash, evaluator.content_hash)
        signature = signature or digest(run, *inputs)
        random_streams.seed_new_weights(run.train.seed)
        model = method.build(run.options, backbone)
        if run.train.weight_decay == 0 and method.corpus_alone(run.options):
            compact_vocabulary.compact(model, batches.ids_in_use(backbone.tokenizer))
        model.to(device)
        settle_graph(model, device, run.train.graph)
        optimiser = optimiser_of(model, run.train)
        trained = distributed.wrap(model)
        # Small gradients of fp16 would be 0; updates that overflow are skipped. Disabled, it changes nothing.
        scaler = torch.amp.GradScaler(device.type, enabled=run.train.precision == "fp16")
        checkpoints = Checkpoints(folder, run, signature, saver or Saver(0))
        upcoming = UpcomingBatches(batches, device, steps_in(run.train))
        return cls(run, folder, device, model, trained, optimiser, scaler, upcoming, evaluator, signature, checkpoints)

    @property
    def precision(self) -> str:
        """Precision in which the device computes, such as bf16."""
        return precision_of(self.device, self.run.train.precision)

    def resume(self, resume_from: Path | None) -> None:
        """Loads the newest state that can be read and fits; without one the run is at its start.

        An error while loading is no damage: it is a bug of this code or of a method's, and reaches the caller.
        """
        folders = dict.fromkeys([self.folder, *([resume_from] if resume_from else [])])
        split = bool(dict(self._read_rank_state()))
        newest = checkpoint.load_newest(folders, split, self.signature, self._require_fit)
        if split:
            checkpoint.forget_rank(self.folder, newest[0]["step"] if newest else 0)
        if newest is None:
            return
        state, source = newest
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(
            compact_vocabulary.compact_moments(self.model, self.optimiser, state["optimiser"])
        )
        if self.scaler.is_enabled():
            self.scaler.load_state_dict(state["scaler"])
        self.step, self.seconds = state["step"], state["seconds"]
        self.points = [Point(**point) for point in state["points"]]
        earlier_best = source / checkpoint.BEST
        if source != self.folder and distributed.rank() == 0 and earlier_best.exists():
            replace_file(self.folder / checkpoint.BEST, partial(shutil.copyfile, earlier_best))

    def _require_fit(self, path: Path, state: checkpoint.State) -> None:
        """Raises CorruptCheckpoint if a state does not fit this run's model, optimiser and precision."""
        with reading(path):
            sizes = [len(group["params"]) for group in state["optimiser"]["param_groups"]]
            points = [Point(**point) for point in state["points"]]
            tensors, _ = dict(state["model"]), (int(state["step"]), float(state["seconds"]))
            _ = dict(state["scaler"]) if self.scaler.is_enabled() else {}
        previous = points[-1].precision if points else ""
        if previous not in ("", self.precision):
            raise CorruptCheckpoint(path, f"it was trained in {previous}, and this device computes {self.precision}")
        if sizes != [len(group["params"]) for group in self.optimiser.param_groups]:
            raise CorruptCheckpoint(path, "its optimiser has other parameters")
        require_fit(path, self.model, tensors)

    def go(self, report: Report) -> Outcome:
        """Reports the points of earlier attempts again, then trains to the end or until `report` returns True."""
        for point in self.points:
            if report(replace(point, replayed=True)):
                return self._outcome(stopped=True)
        due = set(evaluation_steps(self.run.train))
        window, self.clock = Window(), time.perf_counter()
        self.model.train()
        while self.step < steps_in(self.run.train):
            with tf32(self.run.train.precision == "tf32"):
                window.add(self.update())
            self.step += 1
            if self.step in due:
                self._evaluate(window)
                if report(self.points[-1]):
                    return self._outcome(stopped=True)
        return self._outcome(stopped=False)

    def update(self) -> dict[str, Tensor]:
        """Runs one optimiser step on the batch of the session's position; returns step metrics, still on the device."""
        config = self.run.train
        batch = self.batches[self.step]
        random_streams.seed_dropout(config.seed, self.step, distributed.rank())
        set_step(self.optimiser, config, self.step, self._dev_scores())
        with autocast(self.device, config.precision):
            output = self.trained(batch)
        if output.loss.requires_grad:  # a method that is fitted has nothing to descend
            self._descend(output.loss)
        return dict(output.metrics)

    def _descend(self, loss: Tensor) -> None:
        self.scaler.scale(loss).backward()
        if self.run.train.max_grad_norm is not None:
            self.scaler.unscale_(self.optimiser)
            clip_gradients(self.model.parameters(), self.run.train.max_grad_norm)
        if self.scaler.is_enabled():
            count_every_update(self.optimiser, self.step)
        self.scaler.step(self.optimiser)
        self.scaler.update()
        self.optimiser.zero_grad(set_to_none=True)

    def _evaluate(self, window: Window) -> None:
        means = window.means()
        examples = self.step * self.run.train.batch_size
        if not math.isfinite(means["loss"]):
            raise Diverged(f"loss is {means['loss']} after {examples} examples; lower train.learning_rate")
        score = self._dev_score()
        best = self.points[-1].best if self.points else -math.inf
        best_examples = self.points[-1].best_examples if self.points else 0
        improved = score > best
        if improved:
            best, best_examples = score, examples
        # Of the step just trained: `plateau` must not see this evaluation's score yet.
        rate = learning_rate(self.run.train, self.step - 1, self._dev_scores())
        metrics = {self.run.train.dev: score, "learning_rate": rate, **means}
        previous, self.clock = self.clock, time.perf_counter()
        self.seconds += self.clock - previous
        point = Point(examples, self.step, self.seconds, metrics, best, best_examples, precision=self.precision)
        self.points.append(point)
        state = self._state() if distributed.rank() == 0 else {}
        self.checkpoints.take(self.step, state, dict(self._read_rank_state()), self.model, point if improved else None)

    def _dev_scores(self) -> list[float]:
        return [point.metrics[self.run.train.dev] for point in self.points]

    def _dev_score(self) -> float:
        """Returns the dev score of the present model; NaN if the encoder has come to give all texts one vector.

        With NaN the best checkpoint stays what it is. Raises Diverged for embeddings that are not finite, and for a
        first evaluation without a score.
        """
        try:
            with evaluating(self.model):
                scores = [self.evaluator(encode, self.device) for encode in self.model.dev_encodes()]
        except NotFinite as error:
            raise Diverged(str(error)) from error
        best = max(range(len(scores)), key=lambda index: -math.inf if scores[index].unscored else scores[index].value)
        if scores[best].unscored and not self.points:
            length = f"{self.step * self.run.train.batch_size} examples"
            line = f"no score: train.dev={self.run.train.dev} after {length}, {scores[best].unscored}"
            raise Diverged(f"{line}; lower train.learning_rate, or give other dev data")
        if len(scores) > 1:
            self.model.keep(best)
        return scores[best].value

    def _state(self) -> checkpoint.State:
        return {
            "signature": self.signature,
            "model": self.model.state_dict(),
            "optimiser": compact_vocabulary.whole_moments(self.model, self.optimiser),
            "step": self.step,
            "seconds": self.seconds,
            "points": [asdict(point) for point in self.points],
            **({"scaler": self.scaler.state_dict()} if self.scaler.is_enabled() else {}),
        }

    def _read_rank_state(self) -> Iterator[tuple[str, Tensor]]:
        """Yields (name, value) of state that differs between ranks; none for a single rank, or a method without it."""
        if distributed.size() > 1 and self.run.options.rank_dependent():
            prefixes = self.model.TRAINING_ONLY
            yield from ((k, v) for k, v in self.model.state_dict().items() if k.startswith(prefixes))

    def _outcome(self, stopped: bool) -> Outcome:
        best, best_examples = (self.points[-1].best, self.points[-1].best_examples) if self.points else (-math.inf, 0)
        examples, points = self.step * self.run.train.batch_size, tuple(self.points)
        return Outcome(stopped, examples, best, best_examples, self.seconds, points, self.precision)
