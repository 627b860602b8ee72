"""The seven transfer tasks: the package's protocol `senteval` against the same procedure one classifier at a time.

The plain peer is the one of the equality test. TREC, MRPC and SST-2 it runs whole; of MR, CR, SUBJ and MPQA it runs
5 of 410 classifiers, one inner fold with every weight decay and one refit, times 100 and 10, since folds are of one
size (`--whole` runs them all). Seconds are CPU time of one thread, so that a busy machine changes them little. Both
sides get the same features; the last row adds the same encoding time to both.

    python -m benchmarks.evaluation.transfer [--encoder wiki-l4-h128] [--tasks cr,trec,mrpc] [--whole]
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks.step.setting import DATA
from cse_train.data_paths import DataPaths
from cse_train.evaluate.models.open import open_model
from cse_train.evaluate.suites.transfer import embed_task
from cse_train.evaluate.transfer import scorer
from cse_train.evaluate.transfer.contract import RECIPES, Examples
from cse_train.evaluate.transfer.loaders import TASKS, load_task
from tests.cse_train.evaluate.transfer import plain_senteval

BAR = 5.0
MODE = "test"
ENCODER = "wiki-l4-h128"
Row = tuple[float, float, float]
"""Seconds of encoding, of the package's classifiers, of the plain ones."""


def plain_seconds(splits: dict[str, Examples], classes: int, whole: bool) -> tuple[float, str]:
    """Seconds of the plain procedure and what they stand on."""
    pairs = {name: (split.features, split.labels) for name, split in splits.items()}
    if "all" in splits and not whole:
        return sampled_seconds(*pairs["all"], classes)
    start = time.process_time()
    fitted = plain_senteval.plain(pairs, classes, MODE)
    basis = f"{fitted.fits} fits: devacc {fitted.devacc}, accuracy {fitted.accuracy}"
    return time.process_time() - start, basis


def sampled_seconds(x: np.ndarray, y: np.ndarray, classes: int) -> tuple[float, str]:
    """The first inner fold of the first outer one, and that one's refit, for all of them."""
    classifier = plain_senteval.Classifier(MODE, classes)
    outer, _ = next(classifier.split(x, y))
    x, y = x[outer], y[outer]
    train, dev = next(classifier.split(x, y))
    start = time.process_time()
    for decay in plain_senteval.DECAYS:
        classifier.fit(x[train], y[train], decay, (x[dev], y[dev]))
    searched = time.process_time()
    classifier.fit(x, y, plain_senteval.DECAYS[0])
    folds = classifier.folds
    seconds = folds**2 * (searched - start) + folds * (time.process_time() - searched)
    return seconds, f"{classifier.fits} of {folds * (folds * 4 + 1)} fits"


def measure(model: object, name: str, paths: DataPaths, whole: bool) -> Row:
    """One task, printed as a row of the table."""
    task = load_task(name, paths)
    start = time.process_time()
    splits = embed_task(model, task)  # type: ignore[arg-type]
    encoded = time.process_time()
    outcome = scorer("senteval")(splits, task.classes, RECIPES[MODE])
    ours = time.process_time() - encoded
    plain, basis = plain_seconds(splits, task.classes, whole)
    accuracies = f"devacc {outcome.devacc}, accuracy {outcome.accuracy}"
    print(
        f"| {name} | {encoded - start:.1f} | {ours:.1f} | {plain:.1f} | {plain / ours:.1f} | {basis} | {accuracies} |",
        flush=True,
    )
    return encoded - start, ours, plain


def report(encoder: str, tasks: Sequence[str], data: Path, whole: bool = False) -> None:
    """Measure the tasks one after the other and print the table with its bar."""
    model, paths = open_model(Path(encoder), pooler="mean"), DataPaths.from_folder(data)
    print("| task | encoding s | package s | plain s | ratio | plain stands on | package found |\n" + "|---" * 7 + "|")
    rows = [measure(model, name, paths, whole) for name in tasks]
    encoding, ours, plain = (sum(column) for column in zip(*rows, strict=True))
    print(f"| classifiers | | {ours:.1f} | {plain:.1f} | {plain / ours:.1f} | | |")
    ratio = (encoding + plain) / (encoding + ours)
    print(f"| with encoding | {encoding:.1f} | {encoding + ours:.1f} | {encoding + plain:.1f} | {ratio:.1f} | | |")
    print(f"\nbar: at least {BAR:g}; {'held' if ratio >= BAR else 'MISSED'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default=ENCODER)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--whole", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    report(given.encoder, given.tasks.split(","), given.data, given.whole)


if __name__ == "__main__":
    main()
