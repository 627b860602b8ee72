"""Checks that a method, shipped or a user's, keeps its contract: a few steps of a tiny run, which need no data.

`cse check-method` prints the checks, and `tests/cse_train/methods/test_contract.py` runs them on every shipped method.
"""

import dataclasses
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from cse_train import checkpoint, random_streams
from cse_train.config import RunConfig, parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import Backbone, load_backbone
from cse_train.encoder.encoder import Encoder
from cse_train.encoder.packing import pack_lists
from cse_train.fields import ConfigError, Scalar
from cse_train.methods.base import Batch, Method, Share, load_method
from cse_train.plugins.registry import place
from cse_train.reading import first_line
from cse_train.text.file_corpora import LABELLED_COLUMNS, NLI_LABELS
from cse_train.training.batches import Batches
from cse_train.training.loop import train
from cse_train.training.optimiser import optimiser_of

CONTRACT_SETTINGS: Mapping[str, Scalar] = {
    "train.encoder": "words-l1-h64",
    "train.corpus": "file",
    "train.dev": "generated_dev:40",
    "train.batch_size": 8,
    "train.examples": 160,
    "train.evaluations": 4,
    "train.max_seq_length": 16,
    "train.learning_rate": 1e-3,
}
"""Settings of the run of 20 steps on which a method is checked."""
CONTRACT_WORDS = (
    "river stone bridge old market town winter letter music garden road light glass field summer house".split()
)
SENTENCES = ("the old bridge", "winter music in the garden near the river", "glass")
LINES = 40


class Broken(AssertionError):
    """A method breaks a part of its contract; the message says what to look at."""


@dataclass(frozen=True)
class FirstStep:
    """A method before its first step, with its backbone and a batch."""

    run: RunConfig
    backbone: Backbone
    model: Method[Any]
    batch: Batch
    again: Callable[[], Batch]
    """Collates `batch` once more."""

    def trainable(self) -> dict[str, nn.Parameter]:
        return {name: value for name, value in self.model.named_parameters() if value.requires_grad}

    def step(self, index: int, batch: Batch | None = None) -> float:
        """Returns the loss of a step; its gradients are added to the parameters' present ones."""
        random_streams.seed_dropout(self.run.train.seed, index, 0)
        loss = self.model(self.batch if batch is None else batch).loss
        if loss.requires_grad != bool(self.trainable()):
            raise Broken("the loss has a gradient where nothing trains, or none where something does")
        if loss.requires_grad:
            loss.backward()
        return float(loss.item())


def parts(run: RunConfig, paths: DataPaths) -> FirstStep:
    """Builds the method of a run in training mode, and a batch of 8 rows."""
    backbone = load_backbone(run.train.encoder)
    batches = Batches.open(run, paths, backbone)
    rows = batches.rows[:8]
    share = Share(batches.store, rows, rows, partial(random_streams.augmentation, 0, 0))
    again = partial(batches.collate, share)
    random_streams.seed_new_weights(0)
    return FirstStep(run, backbone, load_method(run.method).build(run.options, backbone).train(), again(), again)


Make = Callable[[], FirstStep]


def exports(make: Make, folder: Path) -> None:
    """it is a class of Method whose hooks are known, and its Config is frozen and has a VERSION"""
    make()


def gradients(make: Make, folder: Path) -> None:
    """in 10 steps the gradient reaches what trains, and nothing else changes"""
    first = make()
    model, optimiser = first.model, optimiser_of(first.model, first.run.train)
    frozen = {n: p.clone() for n, p in model.named_parameters() if not p.requires_grad and "momentum" not in n}
    initial = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for index in range(10):
        if not np.isfinite(first.step(index)):
            raise Broken(f"the loss of step {index + 1} is no number")
        without_gradient = [name for name, parameter in first.trainable().items() if parameter.grad is None]
        if index == 0 and without_gradient:
            raise Broken(f"no gradient reaches {without_gradient[0]}; use it in forward, or set requires_grad to False")
        optimiser.step()
        optimiser.zero_grad()
    parameters = dict(model.named_parameters())
    changed = [name for name, value in frozen.items() if not torch.equal(parameters[name], value)]
    if changed:
        raise Broken(f"{changed[0]} changed, though it requires no gradient")
    if all(torch.equal(tensor, initial[name]) for name, tensor in model.state_dict().items()):
        raise Broken("nothing has changed after 10 steps")


def same_seed(make: Make, folder: Path) -> None:
    """the same seed gives the same batch and loss, and dropout depends on the step"""
    first, twin = make(), make()
    losses = first.step(0), twin.step(0, twin.again())
    if losses[0] != losses[1]:
        raise Broken(
            f"losses {losses[0]:.6g} and {losses[1]:.6g}; draw from share.rng_of(row), or from torch in forward"
        )
    draws = any(module.training for module in first.model.modules() if isinstance(module, Encoder))
    if (first.step(1) != twin.step(2, first.batch)) != draws:
        raise Broken("dropout acts where no encoder trains, or does not act where one does")


def saved(make: Make, folder: Path) -> None:
    """saved and loaded, it gives the same embeddings"""
    trained = make()
    optimiser = optimiser_of(trained.model, trained.run.train)
    trained.step(0)
    optimiser.step()
    checkpoint.save_best(folder, trained.run, trained.model, {"best": 1.0})
    _, loaded, _ = checkpoint.load_model(folder)
    packed = pack_lists(_ids(trained.backbone))
    with torch.no_grad():
        before, after = trained.model.eval().encode(packed), loaded.encode(packed)
    if not torch.equal(before, after):
        raise Broken("the embeddings differ; keep what encode needs in parameters and buffers")


def padding(make: Make, folder: Path) -> None:
    """encode gives one vector for each sentence, whatever its neighbours"""
    first = make()
    model, rows = first.model.eval(), _ids(first.backbone)
    with torch.no_grad():
        batched = model.encode(pack_lists(rows, groups=1))
        single = torch.cat([model.encode(pack_lists([row])) for row in rows])
    width = model.width or first.backbone.width
    if tuple(batched.shape) != (len(rows), width):
        raise Broken(f"shape {tuple(batched.shape)} for {len(rows)} sentences; give {(len(rows), width)}")
    if not torch.allclose(batched, single, atol=1e-5, rtol=1e-5):
        raise Broken("a sentence's vector depends on the sentences beside it")


CONTRACT_CHECKS: Mapping[str, Callable[[Make, Path], None]] = {
    check.__name__: check for check in (exports, gradients, same_seed, saved, padding)
}
"""Name -> check of the contract; its docstring is printed as its name, and it raises `Broken` where a method fails."""


@dataclass(frozen=True)
class Result:
    """Outcome of one check of a method's contract."""

    text: str
    problem: str = ""
    """Reason why the check failed, with the place in the user's code; empty if it passed."""


def check_method(
    method: str, settings: Mapping[str, Scalar], folder: Path, paths: DataPaths | None = None
) -> Iterator[Result]:
    """Runs every check on a method and a training of 20 steps, one after the other; writes files into `folder`.

    `settings` are dotted keys over `CONTRACT_SETTINGS`; without `paths` a training text is made up. Raises ConfigError
    if the run's settings are wrong.
    """
    run = parse_run({**CONTRACT_SETTINGS, **settings, "method": method})
    paths = paths or DataPaths(train_file=make_up_text(load_method(method).columns(run.options), folder))
    paths = dataclasses.replace(paths, cache=folder / "cache")
    make = partial(parts, run, paths)
    for name, check in CONTRACT_CHECKS.items():
        yield _result((check.__doc__ or name).strip(), partial(check, make, folder / name))
    yield _result("20 steps train, with dev scores", partial(train, run, paths, folder / "run", lambda point: False))


def _result(text: str, action: Callable[[], object]) -> Result:
    try:
        action()
    except Exception as error:
        reason = (
            first_line(error)
            if isinstance(error, Broken | ConfigError)
            else f"{type(error).__name__}: {first_line(error)}"
        )
        innermost = traceback.extract_tb(error.__traceback__)[-1]
        where = None if isinstance(error, Broken) else place(error) or f"{innermost.filename}:{innermost.lineno}"
        return Result(text, f"{reason} ({where})" if where else reason)
    return Result(text)


def make_up_text(columns: Sequence[str], folder: Path) -> Path:
    """Writes a file with LINES rows of these columns, made of a few words, and returns its path.

    The columns are text, or those of a sentence pair, a triplet or a labelled pair.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines = [" ".join(CONTRACT_WORDS[(i * 7 + j * j) % 16] for j in range(3 + i % 9)) + f" {i}" for i in range(LINES)]
    if tuple(columns) in (("text",), ()):
        path, rows = folder / "text.txt", lines
    else:
        path, is_labelled = folder / "rows.csv", tuple(columns) == LABELLED_COLUMNS
        parts_of_rows = [[lines[(i + j) % LINES] for j in range(len(columns))] for i in range(LINES)]
        if is_labelled:
            parts_of_rows = [[*row[:-1], NLI_LABELS[i * i % 7 % 3]] for i, row in enumerate(parts_of_rows)]
        rows = [",".join(columns), *(",".join(f'"{part}"' for part in row) for row in parts_of_rows)]
    path.write_text("\n".join(rows), encoding="utf8")
    return path


def _ids(backbone: Backbone) -> list[list[int]]:
    ids: list[list[int]] = backbone.tokenizer(list(SENTENCES))["input_ids"]
    return ids
