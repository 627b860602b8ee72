"""The probing tasks on files of SentEval's layout, a few lines each."""

from pathlib import Path

import numpy as np
import pytest
import torch

from cse_train.data_paths import DataPaths
from cse_train.evaluate import tasks
from cse_train.evaluate.suites import probing, transfer
from cse_train.evaluate.suites.registry import problems
from cse_train.evaluate.tasks import PROBING, RECIPES, load_task, scorer
from cse_train.fields import ConfigError
from cse_train.results import Protocol, Score
from tests.cse_train.evaluate.plain_senteval import plain
from tests.cse_train.evaluate.small_tasks import WORDS, sentence, write

pytest.importorskip("sklearn", reason="pip install 'cse-search[transfer]'")
COUNTS = {"train": 90, "dev": 30, "test": 40}
LABELS = ("PRES", "PAST", "FUTURE")


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataPaths:
    """Three classes in every file, whose splits stand mixed."""
    monkeypatch.setattr(tasks, "PROBING_COUNTS", COUNTS)
    short = {split: name for name, split in tasks.PROBING_SPLITS.items()}
    rows = [(short[split], at) for split, count in COUNTS.items() for at in range(count)]
    for place, file in enumerate(PROBING.values()):
        lines = [f"{split}\t{LABELS[at % 3]}\t{sentence(at + place, at % 3)}" for split, at in rows[::2] + rows[1::2]]
        write(tmp_path / "probing" / file, lines, "utf-8")
    return DataPaths(senteval=tmp_path / "downstream")


def test_every_file_is_of_senteval() -> None:
    assert len(PROBING) == 10 and all(name.endswith(".txt") for name in PROBING.values())
    assert sum(tasks.PROBING_COUNTS.values()) == 120_000


def test_classes_are_numbered_by_name_and_examples_sorted_by_tokens_then_class(paths: DataPaths) -> None:
    task = load_task("tense", paths)
    assert task.classes == 3 and {split: len(part.labels) for split, part in task.splits.items()} == COUNTS
    split = task.splits["dev"]
    keys = [(len(text.split()), int(label)) for text, label in zip(split.texts[0], split.labels, strict=True)]
    assert keys == sorted(keys)
    at = split.texts[0].index(sentence(4 + list(PROBING).index("tense"), 4 % 3))
    assert LABELS[4 % 3] == "PAST" and sorted(LABELS).index("PAST") == 1 and split.labels[at] in range(3)
    by_class = {WORDS[number]: sorted(LABELS).index(label) for number, label in enumerate(LABELS)}
    assert all(
        by_class[text.split()[-1]] == label for text, label in zip(split.texts[0], split.labels.tolist(), strict=True)
    )


def test_ten_accuracies_and_their_mean(counter, paths: DataPaths) -> None:
    *tasks, mean = probing.evaluate(counter, paths)
    assert tuple(score.column for score in (*tasks, mean)) == probing.COLUMNS
    assert mean.value == pytest.approx(sum(score.value for score in tasks) / 10)
    assert mean.details["tasks"] == {score.suite: score.value for score in tasks}
    assert [score.column for score in probing.evaluate(counter, paths, members=["wc"])] == ["wc"]


def test_the_dev_mean_is_over_the_dev_accuracies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten tasks whose dev accuracies are 1, 2 .. 10; those on test are 50."""

    def scored(model: object, paths: DataPaths, *, members: tuple[str, ...]) -> list[Score]:
        facts = {"pooler": "mean", "split": "test", "max_length": 512, "rule": "senteval, 10 folds, adam"}
        return [
            Score(
                suite=name,
                metric="accuracy",
                value=50.0,
                protocol=Protocol(suite=name, data_hash=name, **facts),
                details={"devacc": float(place)},
            )
            for place, name in enumerate(members, 1)
        ]

    monkeypatch.setattr(transfer, "evaluate", scored)
    [mean] = probing.evaluate_dev(None, DataPaths())  # type: ignore[arg-type]
    assert (mean.column, mean.value, mean.protocol.split) == ("probing_dev", 5.5, "dev")
    assert mean.details["tasks"]["coordinv"] == 10.0


def test_a_task_equals_the_plain_loop(counter, paths: DataPaths) -> None:
    task = load_task("somo", paths)
    splits = transfer.embed_task(counter, task)
    state = np.random.get_state()
    with torch.random.fork_rng():
        expected = plain({name: (part.features, part.labels) for name, part in splits.items()}, 3, "test")
    np.random.set_state(state)
    outcome = scorer("senteval")(splits, task.classes, RECIPES["test"])
    assert (outcome.predicted == expected.predicted).all()
    assert (outcome.devacc, outcome.accuracy) == (expected.devacc, expected.accuracy)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("tr\tPLUPERFECT", "unreadable line: {path}:1: 'tr.tPLUPERFECT'; fetch the file again"),
        ("xx\tPAST\tgood", "unreadable line: {path}:1: 'xx.tPAST.tgood'; fetch the file again"),
        ("te\tPLUPERFECT\tgood", "unreadable line: {path}:1: 'te.tPLUPERFECT.tgood'; fetch the file again"),
        ("te\tPAST\tgood", "truncated data: tense train: 90 lines expected, 89 found in {path}; fetch it again"),
    ],
)
def test_a_line_of_another_format_is_named(line: str, message: str, paths: DataPaths, tmp_path: Path) -> None:
    path = tmp_path / "probing" / PROBING["tense"]
    path.write_text("\n".join([line, *path.read_text().split("\n")[1:]]))
    with pytest.raises(ConfigError, match=message.format(path=path)) as error:
        load_task("tense", paths)
    assert len(error.value.problems) == 1


def test_what_is_absent_is_one_line(tmp_path: Path) -> None:
    [line] = problems(["probing"], DataPaths(senteval=tmp_path / "downstream"))
    path = tmp_path / "probing" / "sentence_length.txt"
    assert line.startswith(f"missing data: sentlen needs {path} of 120000 lines; ")
