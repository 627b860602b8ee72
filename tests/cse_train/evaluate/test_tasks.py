"""Evaluation tasks by name, and what a metric's name says of it."""

from pathlib import Path

import numpy as np
import pytest

from cse_train.data_paths import DataPaths
from cse_train.evaluate.metric_names import needs_direction, read_span
from cse_train.evaluate.pairs import load_pairs
from cse_train.evaluate.tasks import GRADED, MORE_TASKS, TASKS, load_task
from cse_train.fields import ConfigError

COUNTS = {
    "mr": {"all": 10662},
    "cr": {"all": 3775},
    "subj": {"all": 10000},
    "mpqa": {"all": 10606},
    "sst2": {"train": 67349, "dev": 872, "test": 1821},
    "trec": {"train": 5452, "test": 500},
    "mrpc": {"train": 4076, "test": 1725},
    "sst5": {"train": 8544, "dev": 1101, "test": 2210},
    "sick_entailment": {"train": 4500, "dev": 500, "test": 4927},
    "sick_relatedness": {"train": 4500, "dev": 500, "test": 4927},
    "stsb_relatedness": {"train": 5749, "dev": 1500, "test": 1379},
}
LARGEST_CLASS = {"mr": 5331, "cr": 2407, "subj": 5000, "mpqa": 7294, "sst2": 37569, "trec": 1250, "mrpc": 2753}
LARGEST_CLASS |= {"sst5": 2322, "sick_entailment": 2536}
CLASSES = {"trec": 6, "sst5": 5, "sick_entailment": 3}
PAIRED = ("mrpc", "sick_entailment", *GRADED)


@pytest.mark.parametrize("name", [*TASKS, *MORE_TASKS])
def test_T26_real_tasks_have_sentevals_counts(name: str, data_dir: Path) -> None:
    task = load_task(name, DataPaths.from_folder(data_dir))
    assert {split: len(found.labels) for split, found in task.splits.items()} == COUNTS[name]
    first = next(iter(task.splits.values()))
    if name not in GRADED:
        assert np.bincount(first.labels).max() == LARGEST_CLASS[name]
        assert len(np.unique(first.labels)) == task.classes == CLASSES.get(name, 2)
    assert all(len(side) == len(first.labels) for side in first.texts) and len(first.texts) == 1 + (name in PAIRED)


@pytest.mark.parametrize(("name", "blank"), [("cr", 4), ("mpqa", 3)])
def test_T26_blank_lines_are_examples(name: str, blank: int, data_dir: Path) -> None:
    [texts] = load_task(name, DataPaths.from_folder(data_dir)).splits["all"].texts
    assert texts[:blank] == ("",) * blank and texts[blank]


def test_T26_latin_1_where_senteval_reads_it_and_utf_8_elsewhere(data_dir: Path) -> None:
    paths = DataPaths.from_folder(data_dir)
    [questions] = load_task("trec", paths).splits["train"].texts
    assert sum("sister\xf0city" in text for text in questions) == 1
    [reviews] = load_task("sst2", paths).splits["test"].texts
    assert any("\xe9" in text for text in reviews) and not any("\xc3" in text for text in reviews)


def test_examples_are_sorted_by_tokens_then_label_and_ties_keep_the_file_order(
    tmp_path: Path, small: DataPaths
) -> None:
    lines = ["b b b", "a", *(["x x x x"] * 27), "b  c\t\td "]
    (tmp_path / "CR" / "custrev.pos").write_text("\n".join(lines) + "\n")
    (tmp_path / "CR" / "custrev.neg").write_text("\n".join(["n n n", *(["y y y y y"] * 29)]) + "\n")
    split = load_task("cr", small).splits["all"]
    assert split.texts[0][:4] == ("a", "n n n", "b b b", "b c d")
    assert split.labels[:4].tolist() == [1, 0, 1, 1]


@pytest.mark.parametrize("name", PAIRED)
def test_pairs_are_sorted_by_both_sides(name: str, small: DataPaths) -> None:
    split = load_task(name, small).splits["train"]
    keys = [(len(a.split()), len(b.split()), float(y)) for a, b, y in zip(*split.texts, split.labels, strict=True)]
    assert keys == sorted(keys)


def test_classes_are_senteval_s(data_dir: Path) -> None:
    paths = DataPaths.from_folder(data_dir)
    sentiment, pairs = (load_task(name, paths).splits["dev"] for name in ("sst5", "sick_entailment"))
    of = dict(zip(sentiment.texts[0], sentiment.labels.tolist(), strict=True))
    assert of["one long string of cliches ."] == 1
    first = (
        "The young boys are playing outdoors and the man is smiling nearby",
        "There is no boy playing outdoors and there is no man smiling",
    )
    labels = dict(zip(zip(*pairs.texts, strict=True), pairs.labels.tolist(), strict=True))
    assert labels[first] == 0 and np.bincount(pairs.labels).tolist() == [74, 282, 144]


@pytest.mark.parametrize(("name", "of_set"), [("sick_relatedness", "sickr"), ("stsb_relatedness", "sts")])
def test_grades_are_those_of_the_cosine_sets(name: str, of_set: str, data_dir: Path) -> None:
    """The same pairs, read by the other loader, in another order."""
    paths = DataPaths.from_folder(data_dir)
    task = load_task(name, paths)
    for split in ("dev", "test"):
        pairs, part = load_pairs(f"{of_set}_{split}", paths), task.splits[split]
        assert part.labels.dtype == np.float64
        found = sorted(zip(*part.texts, part.labels.tolist(), strict=True))
        assert found == sorted(zip(pairs.left, pairs.right, pairs.gold.tolist(), strict=True))


def test_trec_drops_the_subclass(small: DataPaths) -> None:
    [texts] = load_task("trec", small).splits["test"].texts
    assert all(text.endswith(" ?") and "sub" not in text for text in texts)


@pytest.mark.parametrize(
    ("name", "file", "lines"),
    [
        ("mr", "MR/rt-polarity.neg", 30),
        ("trec", "TREC/TREC_10.label", 60),
        ("mrpc", "MRPC/msr_paraphrase_train.txt", 61),
        ("sst5", "SST/fine/sentiment-dev", 60),
        ("sick_entailment", "SICK/SICK_trial.txt", 61),
    ],
)
def test_short_file_tells_which_and_both_counts(
    name: str, file: str, lines: int, tmp_path: Path, small: DataPaths
) -> None:
    path = tmp_path / file
    path.write_text("\n".join(path.read_text().split("\n")[: lines - 3]) + "\n")
    with pytest.raises(ConfigError) as error:
        load_task(name, small)
    expected = f"truncated data: {name}: {lines} lines expected, {lines - 3} found in {path}; fetch it again"
    assert error.value.problems == [expected]


def test_missing_file_tells_which_and_how_many_lines(tmp_path: Path, small: DataPaths) -> None:
    path = tmp_path / "SST" / "binary" / "sentiment-dev"
    path.unlink()
    with pytest.raises(ConfigError, match=f"missing data: sst2 needs {path} of 60 lines; cse data get"):
        load_task("sst2", small)


def test_empty_file_has_no_lines(tmp_path: Path, small: DataPaths) -> None:
    (tmp_path / "CR" / "custrev.pos").write_text("")
    with pytest.raises(ConfigError, match="30 lines expected, 0 found"):
        load_task("cr", small)


@pytest.mark.parametrize(
    ("name", "file", "line"),
    [
        ("sst2", "SST/binary/sentiment-test", "no label"),
        ("trec", "TREC/TREC_10.label", "SHAPE:sub What ?"),
        ("mrpc", "MRPC/msr_paraphrase_test.txt", "2\t1\t2\tleft\tright"),
        ("sst5", "SST/fine/sentiment-test", "5 a class too many"),
        ("sick_entailment", "SICK/SICK_train.txt", "1\tleft\tright\t4.5\tENTAILS"),
        ("sick_relatedness", "SICK/SICK_train.txt", "1\tleft\tright\tmuch\tNEUTRAL"),
        ("stsb_relatedness", "STS/STSBenchmark/sts-dev.csv", "genre\tfile\tyear\t1\t4.5\tleft"),
    ],
)
def test_a_line_of_another_format_is_named(name: str, file: str, line: str, tmp_path: Path, small: DataPaths) -> None:
    path = tmp_path / file
    lines = path.read_text().split("\n")
    lines[4] = line
    path.write_text("\n".join(lines))
    with pytest.raises(ConfigError, match=f"unreadable line: {path}:5: ") as error:
        load_task(name, small)
    assert len(error.value.problems) == 1


def test_bad_bytes_name_the_file(tmp_path: Path, small: DataPaths) -> None:
    path = tmp_path / "SST" / "binary" / "sentiment-dev"
    path.write_bytes(b"\xff\xfe\n" * 60)
    with pytest.raises(ConfigError, match=f"not UTF-8: {path}"):
        load_task("sst2", small)


def test_no_folder_and_unknown_task_are_one_line() -> None:
    with pytest.raises(ConfigError, match="missing data: mr needs senteval/downstream"):
        load_task("mr", DataPaths())
    with pytest.raises(ConfigError, match=r"unknown task: tasks=sst; .*sst5"):
        load_task("sst", DataPaths())


def test_hash_follows_texts_and_labels(tmp_path: Path, small: DataPaths) -> None:
    before = load_task("cr", small).content_hash
    assert before == load_task("cr", small).content_hash
    path = tmp_path / "CR" / "custrev.pos"
    path.write_text(path.read_text().replace("good", "fine", 1))
    assert before != load_task("cr", small).content_hash


@pytest.mark.parametrize("name", ["loss", "eval/loss", "valLoss", "trainloss", "mae", "test_PPL", "error_rate"])
def test_the_lower_value_of_these_is_likely_the_better_one(name: str) -> None:
    assert needs_direction(name) and read_span(name, [0.5]) is None


@pytest.mark.parametrize("name", ["eval/stsb_spearman", "valAcc", "NDCG@10", "recall_at_5", "f1_macro", "sts12"])
def test_a_bounded_metric_is_read_by_its_values(name: str) -> None:
    assert not needs_direction(name)
    assert (read_span(name, [0.6, -1.0]), read_span(name, [60.0]), read_span(name, [600.0])) == (1.0, 100.0, None)
    assert read_span(name, []) is None


@pytest.mark.parametrize("name", ["value", "score", "reward", "objective"])
def test_other_names_say_nothing(name: str) -> None:
    assert not needs_direction(name) and read_span(name, [0.6]) is None
