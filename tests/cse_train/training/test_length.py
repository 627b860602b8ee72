"""`train.examples: 3 epochs` is three times the rows of the corpus, and the same run as that number of examples."""

from pathlib import Path

import pytest
import torch

from cse_train import checkpoint
from cse_train.config import count_examples, epochs_in, parse_run, run_problems
from cse_train.data_paths import DataPaths
from cse_train.text.corpora import rows_of
from cse_train.training.loop import Outcome, train

TEXT = [f"the {word} stands in the {place}" for word in ("cat", "dog", "horse") for place in ("sun", "rain", "snow")]
"""9 rows."""
SETTINGS = {
    "method": "simcse",
    "train.encoder": "words-l1-h64",
    "train.corpus": "file",
    "train.dev": "generated_dev:20",
    "train.batch_size": 4,
    "train.evaluations": 2,
}


@pytest.fixture
def paths(tmp_path: Path) -> DataPaths:
    (tmp_path / "nine.txt").write_text("\n".join(TEXT) + "\n\n")
    return DataPaths(train_file=tmp_path / "nine.txt", cache=tmp_path / "cache")


def weights(folder: Path, length: object, paths: DataPaths) -> tuple[Outcome, torch.Tensor]:
    outcome = train(parse_run({**SETTINGS, "train.examples": length}), paths, folder, lambda _: False)
    state = torch.load(folder / checkpoint.LAST, weights_only=False)
    return outcome, torch.cat([value.float().flatten() for value in state["model"].values()])


def test_epochs_train_as_the_examples_that_they_come_to(tmp_path: Path, paths: DataPaths) -> None:
    """3 x 9 rows are 27 examples, 6 whole batches of 4."""
    epochs, by_epochs = weights(tmp_path / "epochs", "3 epochs", paths)
    count, by_count = weights(tmp_path / "count", 27, paths)
    assert epochs.examples == count.examples == 24
    assert [point.metrics["loss"] for point in epochs.points] == [point.metrics["loss"] for point in count.points]
    assert torch.equal(by_epochs, by_count)


@pytest.mark.parametrize(
    ("text", "examples"), [("1 epoch", 9), ("2 epochs", 18), ("0.5 epochs", 4), ("0.01 epochs", 1)]
)
def test_a_length_is_counted_on_the_rows_of_the_corpus(paths: DataPaths, text: str, examples: int) -> None:
    run = parse_run({**SETTINGS, "train.examples": text})
    assert count_examples(run, lambda: rows_of("file", paths)).train.examples == examples


def test_a_count_asks_for_no_rows() -> None:
    run = parse_run({**SETTINGS, "train.examples": 27})
    assert epochs_in(27) is None and count_examples(run, lambda: pytest.fail("rows were counted")) is run


@pytest.mark.parametrize(
    "text", ["3", "epochs", "0 epochs", "-1 epochs", "three epochs", "3 epochs of nli", "3  epochs"]
)
def test_another_text_is_no_length(text: str) -> None:
    line = f"wrong length: train.examples={text}; give a number of examples, or epochs as in 3 epochs"
    assert run_problems({**SETTINGS, "train.examples": text}) == [line]


def test_a_count_below_one_is_out_of_range() -> None:
    (line,) = run_problems({**SETTINGS, "train.examples": 0})
    assert line == "out of range: train.examples=0; give int >= 1 or str"


def test_rows_are_counted_again_when_the_file_changes(paths: DataPaths) -> None:
    assert rows_of("file", paths) == 9
    assert paths.train_file is not None
    paths.train_file.write_text("one more\n" + "\n".join(TEXT))
    assert rows_of("file", paths) == 10
