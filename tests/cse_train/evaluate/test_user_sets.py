"""A user's own sets: a copy of a shipped set scores as it does, and retrieval's numbers are those of its protocol."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import load_backbone
from cse_train.encoder.pooling import make_pooled
from cse_train.evaluate.dev import dev_evaluator
from cse_train.evaluate.embedding import evaluating
from cse_train.evaluate.judgements import RANK_METRICS, load_judgements, scores_of
from cse_train.evaluate.pairs import load_pairs
from cse_train.evaluate.run_suites import evaluate, options
from cse_train.evaluate.score import keep_cosines
from cse_train.evaluate.suites import registry
from cse_train.evaluate.tasks import load_task
from cse_train.evaluate.user_sets import open_user_file
from cse_train.evaluate.vectors import TextModel
from cse_train.fields import ConfigError
from cse_train.results import Protocol
from cse_train.user_files import UserFile

CHOSEN = options("senteval", "test", "all")


class Letters(TextModel):
    """Counts of letters, so that scores need no weights."""

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([[text.count(letter) + 0.01 for letter in "aeiourtn"] for text in texts], dtype=np.float32)


MODEL = Letters("letters", "mean", 512, "0" * 8)


def mine(path: Path, role: str = "test", **given: object) -> UserFile:
    return UserFile(name=path.name.partition(".")[0], file=str(path), role=role, **given)  # type: ignore[arg-type]


def paths_of(*files: UserFile) -> DataPaths:
    return DataPaths(files=files)


@pytest.fixture
def judged(tmp_path: Path) -> UserFile:
    """Three queries over five documents; the second query is a document too, the third row answers no query."""
    lines = [
        *("query,document,relevance", "aa,aaa,2", "aa,aae,1", "aa,e,0"),
        *("e,aae,1", ",zzz,"),
    ]
    (tmp_path / "faq.csv").write_text("\n".join(lines) + "\n", encoding="utf8")
    return mine(tmp_path / "faq.csv")


def test_a_copy_of_sts_b_scores_as_the_shipped_set_does(data_dir: Path, tmp_path: Path) -> None:
    shipped = DataPaths.from_folder(data_dir)
    pairs = load_pairs("sts_dev", shipped)
    with (tmp_path / "copy.tsv").open("w", encoding="utf8", newline="") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerow(["sentence1", "sentence2", "score"])
        writer.writerows(zip(pairs.left, pairs.right, pairs.gold, strict=True))
    copy = paths_of(mine(tmp_path / "copy.tsv"))
    (theirs,) = evaluate(MODEL, shipped, ["sts_dev"], CHOSEN)
    (ours,) = evaluate(MODEL, copy, ["copy"], CHOSEN)
    assert ours.value == theirs.value and (ours.suite, ours.column) == ("copy", "copy")
    assert ours.protocol.data_hash == theirs.protocol.data_hash == registry.set_hash("copy", copy)
    assert ours.protocol.split == "test" and theirs.protocol.split == "dev"
    kept = keep_cosines(ours, tmp_path).file
    assert kept is not None and kept.path == tmp_path / "cosines-copy.npz"


def test_ratings_may_have_any_scale_and_sign(tmp_path: Path) -> None:
    texts = [("a tree", "a treat"), ("an area", "one"), ("noun", "rotten"), ("unit", "tunic"), ("oar", "eerie")]
    values = []
    for name, scale in (("one", 1.0), ("percent", 20.0)):
        lines = [{"text1": a, "text2": b, "similarity": scale * grade} for grade, (a, b) in enumerate(texts)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf8")
        values += [s.value for s in evaluate(MODEL, paths_of(mine(tmp_path / f"{name}.jsonl")), [name], CHOSEN)]
    assert values[0] == values[1] != 0


def test_a_copy_of_a_transfer_task_scores_as_the_shipped_task_does(data_dir: Path, tmp_path: Path) -> None:
    """Of MR's first lines, which both read: folds, classifier and accuracy are one."""
    task = load_task("mr", DataPaths.from_folder(data_dir)).splits["all"]
    chosen = [*range(0, len(task.labels), 80)]
    with (tmp_path / "films.csv").open("w", encoding="utf8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["label", "sentence"])
        writer.writerows(("good" if task.labels[row] else "bad", task.texts[0][row]) for row in chosen)
    loaded = load_task("films", paths_of(mine(tmp_path / "films.csv")))
    split = loaded.splits["all"]
    assert loaded.classes == 2 and split.texts[0] == tuple(task.texts[0][row] for row in chosen)
    assert split.labels.tolist() == [task.labels[row] for row in chosen]
    (score,) = evaluate(MODEL, paths_of(mine(tmp_path / "films.csv")), ["films"], CHOSEN)
    assert (score.column, score.metric, score.protocol.rule) == ("films", "accuracy", "senteval, 10 folds, adam")
    assert 40 < score.value < 75


def test_a_class_that_a_table_reader_gives_as_a_whole_float_is_that_number(tmp_path: Path) -> None:
    """pandas and Parquet make 1.0 of 1 where a column once had an empty field."""
    rows = pd.DataFrame({"text": [f"a river {n}" for n in range(30)], "label": [n % 2 for n in range(30)]})
    rows.to_csv(tmp_path / "whole.csv", index=False)
    rows.astype({"label": "float64"}).to_parquet(tmp_path / "float.parquet")
    hashes = {registry.set_hash(p.stem, paths_of(mine(p))) for p in tmp_path.iterdir()}
    assert len(hashes) == 1
    rows.assign(label=rows.label + 0.5).to_parquet(tmp_path / "half.parquet")
    with pytest.raises(ConfigError, match="^missing label: .*half.parquet, row 1: label is no class"):
        registry.set_hash("half", paths_of(mine(tmp_path / "half.parquet")))


def test_retrieval_follows_its_protocol(judged: UserFile) -> None:
    loaded = load_judgements(judged)
    assert loaded.queries == ("aa", "e") and loaded.documents == ("aaa", "aae", "e", "zzz")
    place = {"aa": (1.0, 0.1), "aaa": (0.9, 0.3), "aae": (1.0, 0.1), "e": (0.0, 1.0), "zzz": (0.05, 1.0)}
    rows = [np.array([place[text] for text in texts]) for texts in (loaded.queries, loaded.documents)]
    # aa: aae, aaa, zzz, e. e: zzz, aaa, aae, since the document e is the query itself.
    first = (1 + 2 / np.log2(3)) / (2 + 1 / np.log2(3))
    second = 1 / np.log2(4)
    values = scores_of(loaded, *rows)
    assert values["ndcg@10"] == pytest.approx(50 * (first + second))
    assert values["mrr@10"] == pytest.approx(50 * (1 + 1 / 3)) and values["recall@1"] == 50.0
    assert values["recall@10"] == 100.0 and values["map@100"] == pytest.approx(50 * (1 + 1 / 3))


def test_equal_documents_rank_those_that_answer_last(judged: UserFile) -> None:
    loaded = load_judgements(judged)
    values = scores_of(loaded, np.ones((2, 2)), np.ones((4, 2)))
    assert values["recall@1"] == 0.0 and values["mrr@10"] == pytest.approx(50 * (1 / 3 + 1 / 3))


@pytest.mark.parametrize("metric", RANK_METRICS)
def test_the_metric_that_is_asked_for_stands_under_the_name(metric: str, judged: UserFile) -> None:
    paths = paths_of(mine(Path(judged.file), metric=metric))
    scores = evaluate(MODEL, paths, ["faq"], CHOSEN)
    assert [score.metric for score in scores if score.column == "faq"] == [metric]
    assert {score.column for score in scores} - {"faq"} == {f"faq:{m}" for m in RANK_METRICS} - {f"faq:{metric}"}
    others = [paths_of(mine(Path(judged.file), metric=other)) for other in RANK_METRICS]
    assert len({registry.set_hash("faq", other) for other in others}) == 5


def test_kinds_are_told_by_columns_and_by_kind(tmp_path: Path) -> None:
    header = {"a.csv": "premise,hypothesis,label", "b.csv": "question,answer", "c.csv": "question,class"}
    for name, line in header.items():
        (tmp_path / name).write_text(line + "\n", encoding="utf8")
    assert [open_user_file(mine(tmp_path / name)).kind for name in header] == ["ratings", "retrieval", "labels"]
    columns = (("label", "hypothesis"), ("text", "premise"))
    assert open_user_file(mine(tmp_path / "a.csv", columns=columns)).kind == "labels"
    assert dict(open_user_file(mine(tmp_path / "b.csv")).columns) == {"query": "question", "document": "answer"}


def test_scores_of_a_set_that_changed_no_longer_count(judged: UserFile) -> None:
    paths = paths_of(judged)
    stored = {s.column: s.protocol for s in evaluate(MODEL, paths, ["faq"], CHOSEN)} | {"sts": Protocol.read({})}
    assert registry.still_valid(stored, paths) == set(stored)
    file = Path(judged.file)
    file.write_text(file.read_text(encoding="utf8") + "e,zzz,1\n", encoding="utf8")
    assert registry.still_valid(stored, paths) == set(stored) - {"faq"}
    file.unlink()
    assert registry.still_valid(stored, paths) == set(stored)


def test_each_kind_can_pick_checkpoints(judged: UserFile, tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text(
        "text,label\n" + "".join(f"a {'river' if i % 2 else 'stone'} {i},{i % 2}\n" for i in range(40)), "utf8"
    )
    rated = "".join(f"a river {i}\ta bridge {i * 7}\t{i % 5}\n" for i in range(20))
    (tmp_path / "rated.tsv").write_text("sentence1\tsentence2\trating\n" + rated, encoding="utf8")
    files = [mine(Path(p), role="dev") for p in (judged.file, tmp_path / "labels.csv", tmp_path / "rated.tsv")]
    paths, backbone = paths_of(*files), load_backbone("words-l1-h64")
    for file in files:
        evaluator = dev_evaluator(file.name, paths, backbone.tokenizer, 32)
        with evaluating(backbone.encoder):
            values = {evaluator(make_pooled(backbone.encoder, "mean")).value for _ in range(2)}
        assert len(values) == 1 and -100 <= values.pop() <= 100
        assert evaluator.content_hash == registry.set_hash(file.name, paths)


def test_a_test_set_picks_no_checkpoint(judged: UserFile) -> None:
    with pytest.raises(ConfigError, match="test set as dev: train.dev=faq"):
        dev_evaluator("faq", paths_of(judged), load_backbone("words-l1-h64").tokenizer, 32)
