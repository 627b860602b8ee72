"""Corpus, queries and judgements as three files, read as they lie, and what each query gave."""

import csv
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from cse_train.data_paths import DataPaths
from cse_train.evaluate.judgements import RANK_METRICS, Judgements, load_judgements, read_queries, score_queries
from cse_train.evaluate.models import open_model
from cse_train.evaluate.run_suites import evaluate
from cse_train.evaluate.score import keep_cosines
from cse_train.fields import ConfigError
from cse_train.results import Protocol, Score
from cse_train.user_files import UserFile
from search_spaces.identity.user_files import describe_files
from search_spaces.user_data import read_suites
from tests.cse_train.encoders import tokenizer_of, write_encoder

WORDS = "river old stone bridge town winter music garden light glass field house road".split()
DRAWN = random.Random(0)
DOCUMENTS = {f"d{n}": (f"the {DRAWN.choice(WORDS)}", " ".join(DRAWN.choices(WORDS, k=6))) for n in range(60)}
JUDGED = {f"q{n}": DRAWN.sample([*DOCUMENTS], k=1 + n % 4) for n in range(12)}
QUERIES = {query: " ".join(DOCUMENTS[keys[0]][1].split()[:4]) for query, keys in JUDGED.items()} | {"q12": "a road"}


def beir(folder: Path) -> None:
    """Titles, metadata, a query without an answer, and judgements of 0."""
    (folder / "qrels").mkdir(parents=True)
    documents = [{"_id": k, "title": t, "text": x, "metadata": {}} for k, (t, x) in DOCUMENTS.items()]
    lines(folder / "corpus.jsonl", documents)
    lines(folder / "queries.jsonl", [{"_id": key, "text": text, "metadata": {}} for key, text in QUERIES.items()])
    for split in ("dev", "test"):
        rows = [[query, key, "1"] for query, keys in JUDGED.items() for key in keys]
        rows += [["q0", next(key for key in DOCUMENTS if key not in JUDGED["q0"]), "0"]]
        delimited(
            folder / "qrels" / f"{split}.tsv",
            [["query-id", "corpus-id", "score"], *rows[: None if split == "test" else 9]],
        )


def tables(folder: Path) -> None:
    folder.mkdir()
    delimited(folder / "corpus.tsv", [["id", "text"], *([k, f"{t} {x}"] for k, (t, x) in DOCUMENTS.items())])
    delimited(folder / "queries.tsv", [["qid", "query"], *([key, text] for key, text in QUERIES.items())])
    rows = [[query, key] for query, keys in JUDGED.items() for key in keys]
    delimited(folder / "qrels.tsv", [["qid", "docid"], *rows])


NANO_TABLES = {
    "corpus": [{"_id": key, "text": f"{title} {text}"} for key, (title, text) in DOCUMENTS.items()],
    "queries": [{"_id": key, "text": QUERIES[key]} for key in JUDGED],
    "qrels": [{"query-id": query, "corpus-id": key} for query, keys in JUDGED.items() for key in keys],
}


def nano(folder: Path, splits: tuple[str, ...] = ("NanoMSMARCO",)) -> None:
    """NanoBEIR's: a folder for each part with a Parquet file for each split, and a card that names them."""
    configs = []
    for part, rows in NANO_TABLES.items():
        (folder / part).mkdir(parents=True)
        for split in splits:
            kept = rows if split == "NanoMSMARCO" or part != "qrels" else rows[:9]
            pq.write_table(pa.Table.from_pylist(kept), folder / part / f"{split}-00000-of-00001.parquet")
        files = [{"split": split, "path": f"{part}/{split}-*"} for split in splits]
        configs.append({"config_name": part, "data_files": files})
    (folder / "README.md").write_text(f"---\n{yaml.safe_dump({'configs': configs})}---\n", encoding="utf8")


def lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf8")


def delimited(path: Path, rows: list[list[str]]) -> None:
    with path.open("w", encoding="utf8", newline="") as file:
        csv.writer(file, delimiter="\t").writerows(rows)


def mine(folder: Path, **given: Any) -> UserFile:
    return UserFile(name="faq", file=str(folder), role="test", **given)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    beir(tmp_path / "faq")
    return tmp_path / "faq"


@pytest.mark.parametrize("write", [beir, tables, nano])
def test_beirs_layout_and_tables_hold_the_same_set(write: Callable[[Path], None], tmp_path: Path) -> None:
    write(tmp_path / "faq")
    loaded = load_judgements(mine(tmp_path / "faq", split="test" if write is beir else None))
    assert loaded.documents == tuple(f"{title} {text}" for title, text in DOCUMENTS.values())
    assert loaded.queries == tuple(QUERIES[query] for query in JUDGED), "those with an answer"
    keys = list(DOCUMENTS)
    assert [{keys[place] for place in answers} for answers in loaded.judged] == [set(ids) for ids in JUDGED.values()]
    beir(tmp_path / "other")
    assert loaded.content_hash == load_judgements(mine(tmp_path / "other", split="test")).content_hash
    assert loaded.content_hash != load_judgements(mine(tmp_path / "other", split="dev")).content_hash


PROMPTS: list[dict[str, Any]] = [
    {},
    {"prompts": {"query": "town light ", "document": "old road "}},
    {"prompts": {"query": "search the field ", "STS": "house "}},
    {"prompts": {"query": "", "document": "winter "}, "default_prompt_name": "document"},
    {"prompts": {"STS": "house "}, "default_prompt_name": "STS"},
]


@pytest.mark.parametrize("given", PROMPTS, ids=str)
def test_scores_are_those_of_sentence_transformers_evaluator(
    given: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    """InformationRetrievalEvaluator, on the folder of that library that we open, for all queries and for each alone."""
    library = pytest.importorskip("sentence_transformers", reason="pip install 'cse-search[sentence-transformers]'")
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

    modules = library.sentence_transformer.modules
    bare = write_encoder(tmp_path / "bare", "bert", tokenizer_of("[CLS]", "[SEP]"))
    parts = [modules.Transformer(str(bare)), modules.Pooling(32, "mean")]
    library.SentenceTransformer(modules=parts, **given).save(str(tmp_path / "st"))
    documents = {key: f"{title} {text}" for key, (title, text) in DOCUMENTS.items()}
    loaded = library.SentenceTransformer(str(tmp_path / "st"))

    def judge(*queries: str) -> dict[str, float]:
        asked, answers = {key: QUERIES[key] for key in queries}, {key: set(JUDGED[key]) for key in queries}
        return dict(InformationRetrievalEvaluator(asked, documents, answers)(loaded))

    theirs = judge(*JUDGED)
    model = open_model(tmp_path / "st")
    ours = {s.metric: s for s in evaluate(model, DataPaths(files=(mine(folder, split="test"),)), ["faq"], {})}
    each = [judge(query) for query in JUDGED] if not given else []
    for metric in RANK_METRICS:
        name = f"cosine_{'accuracy@1' if metric == 'recall@1' else metric}"
        assert ours[metric].value == pytest.approx(100 * theirs[name], abs=1e-6), metric
        alone = ours[metric].queries
        assert alone is not None and alone.mean() == pytest.approx(ours[metric].value, abs=1e-9)
        assert not each or alone == pytest.approx([100 * one[name] for one in each], abs=1e-6), metric
    assert 5 < ours["ndcg@10"].value < 95
    prompts = given.get("prompts", {})
    said = f"query: {prompts.get('query', '')}, document: {prompts.get('document', '')}" if prompts else ""
    assert ours["ndcg@10"].protocol.prompt == said


def test_documents_of_one_text_are_two_and_a_document_of_the_querys_id_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "faq").mkdir()
    delimited(tmp_path / "faq/corpus.tsv", [["id", "text"], ["1", "a"], ["2", "b"], ["3", "b"]])
    delimited(tmp_path / "faq/queries.tsv", [["id", "text"], ["1", "a"], ["9", "a"]])
    delimited(tmp_path / "faq/qrels.tsv", [["query-id", "corpus-id"], ["1", "2"], ["9", "3"]])
    loaded = load_judgements(mine(tmp_path / "faq"))
    assert loaded.documents == ("a", "b", "b") and loaded.queries == ("a", "a") and loaded.itself == (0, None)


def test_scores_of_nanobeirs_folder_are_those_of_its_evaluator_behind_prompts(tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers", reason="pip install 'cse-search[sentence-transformers]'")
    from sentence_transformers.sentence_transformer.evaluation import NanoBEIREvaluator

    nano(tmp_path / "nano", ("NanoMSMARCO", "NanoNQ"))
    prompts = {"query": "town light ", "document": "old road "}
    bare = write_encoder(tmp_path / "bare", "bert", tokenizer_of("[CLS]", "[SEP]"))
    modules = library.sentence_transformer.modules
    parts = [modules.Transformer(str(bare)), modules.Pooling(32, "mean")]
    library.SentenceTransformer(modules=parts, prompts=prompts).save(str(tmp_path / "st"))
    judge = NanoBEIREvaluator(["msmarco", "nq"], dataset_id=str(tmp_path / "nano"), show_progress_bar=False)
    theirs, model = judge(library.SentenceTransformer(str(tmp_path / "st"))), open_model(tmp_path / "st")
    for split in ("NanoMSMARCO", "NanoNQ"):
        paths = DataPaths(files=(mine(tmp_path / "nano", split=split),))
        ours = {score.metric: score for score in evaluate(model, paths, ["faq"], {})}
        for metric, name in (("ndcg@10", "ndcg@10"), ("mrr@10", "mrr@10"), ("recall@1", "accuracy@1")):
            assert ours[metric].value == pytest.approx(100 * theirs[f"{split}_cosine_{name}"], abs=1e-6), metric
        assert ours["ndcg@10"].protocol.prompt == "query: town light , document: old road "
    with pytest.raises(ConfigError, match=r"^which split: .* split=None; give `split:`, one of NanoMSMARCO, NanoNQ$"):
        load_judgements(mine(tmp_path / "nano"))


BAD: dict[str, tuple[str, str, str]] = {
    "no such document": (
        *("qrels/test.tsv", "query-id\tcorpus-id\nq1\td99\n"),
        "nothing to retrieve: .* 60 documents, and 1 answers that are not among these; ",
    ),
    "no such query": ("qrels/test.tsv", "query-id\tcorpus-id\nx\td1\n", "unknown ID: .*x is not in queries.jsonl"),
    "below zero": ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t-1\n", "nothing to retrieve: "),
    "no header": ("qrels/test.tsv", "q1\td1\t1\n", "no header: .*test.tsv begins with a row, such as 1;"),
    "an ID twice": ("corpus.jsonl", '{"_id": "1", "text": "a"}\n{"_id": "1", "text": "b"}\n', "ID twice: .*line 2: 1"),
    "no ID": ("corpus.jsonl", '{"_id": null, "text": "a"}\n', "no ID: .*corpus.jsonl, line 1"),
    "no text": ("queries.jsonl", '{"_id": "1", "text": ""}\n', "empty sentence: .*queries.jsonl, line 1"),
    "two corpora": ("corpus.tsv", "id\ttext\n1\ta\n", "which corpus: .* has corpus.jsonl, corpus.tsv; give one"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_read_is_one_line(name: str, folder: Path) -> None:
    place, content, told = BAD[name]
    (folder / place).write_text(content, encoding="utf8")
    with pytest.raises(ConfigError, match=f"^{told}") as raised:
        load_judgements(mine(folder, split="test"))
    assert len(raised.value.problems) == 1


GRADED = [["q", "a", "2"], ["q", "c", "1"], ["q", "z", "0"], ["r", "a", "1"]]
NEGATIVE = [["q", "b", "-1"], ["q", "u", "-2"], ["s", "b", "-1"]]
UNREACHABLE = [["q", "gone", "3"], ["t", "gone", "1"]]
TREC = {
    "ndcg@10": [(2 / np.log2(3) + 1 / np.log2(5)) / (3 + 2 / np.log2(3) + 1 / np.log2(4)), 1 / np.log2(3), 0.0],
    "mrr@10": [0.5, 0.5, 0.0],
    "recall@1": [0.0, 0.0, 0.0],
    "recall@10": [2 / 3, 1.0, 0.0],
    "map@100": [(1 / 2 + 2 / 4) / 3, 0.5, 0.0],
}
"""Scores by pytrec_eval of the queries q, r and t of GRADED and UNREACHABLE, with documents ranked b, a, u, c, z."""


def graded(folder: Path, *judged: list[list[str]]) -> UserFile:
    folder.mkdir()
    delimited(folder / "corpus.tsv", [["id", "text"], *([key, f"river {key}"] for key in "abcuz")])
    delimited(folder / "queries.tsv", [["id", "text"], *([key, f"bridge {key}"] for key in "qrst")])
    rows = sorted((row for rows in judged for row in rows), key=lambda row: row[0])
    delimited(folder / "qrels.tsv", [["query-id", "corpus-id", "score"], *rows])
    return mine(folder)


def test_judgements_count_as_trec_eval_counts_them(tmp_path: Path) -> None:
    """An answer that is not among the documents is one that is not found; below 0 is 0. Removing it would raise q."""
    loaded = load_judgements(graded(tmp_path / "all", GRADED, NEGATIVE, UNREACHABLE))
    assert loaded.queries == ("bridge q", "bridge r", "bridge t")
    angles = np.array([0.2, 0.1, 0.4, 0.3, 0.5])
    documents_CD = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    ours_QM = score_queries(loaded, np.tile([1.0, 0.0], (3, 1)), documents_CD)
    for metric, theirs in TREC.items():
        assert ours_QM[:, RANK_METRICS.index(metric)] == pytest.approx(theirs, abs=1e-12), metric
    without = load_judgements(graded(tmp_path / "without", GRADED, NEGATIVE))
    assert score_queries(without, np.tile([1.0, 0.0], (2, 1)), documents_CD)[0, 0] > ours_QM[0, 0]


def test_what_counts_otherwise_than_a_person_may_expect_is_named(tmp_path: Path) -> None:
    file = graded(tmp_path / "all", GRADED, NEGATIVE, UNREACHABLE)
    assert load_judgements(file).notes() == [
        "answers that are not among the documents, counted as not found: 2",
        "judgements below 0, counted as 0: 3",
    ]
    (line,) = describe_files(DataPaths(files=(file,)))
    assert line.endswith(f"of {tmp_path}/all; answers that are not among the documents, counted as not found: 2; "
                         "judgements below 0, counted as 0: 3")  # fmt: skip
    plain = load_judgements(graded(tmp_path / "plain", GRADED))
    assert plain.notes() == [] and plain.unreachable == {}
    assert load_judgements(graded(tmp_path / "negative", GRADED, NEGATIVE)).content_hash == plain.content_hash
    lost = [load_judgements(graded(tmp_path / name, GRADED, [["q", "gone", name]])).content_hash for name in "123"]
    assert len({plain.content_hash, *lost}) == 4


def test_several_splits_ask_which_and_columns_are_not_told(folder: Path) -> None:
    for given, told in (
        ({}, "give `split:`, one of dev, test"),
        ({"split": "tst"}, "did you mean test?"),
        ({"split": "test", "columns": (("query", "q"),)}, "not of three files: columns="),
        ({"split": "test", "kind": "labels"}, "not of three files: kind=labels"),
    ):
        with pytest.raises(ConfigError, match=told.replace("?", r"\?")):
            load_judgements(mine(folder, **given))


def test_a_folder_is_a_suite_of_the_command_line(folder: Path) -> None:
    names, (file,) = read_suites([f"{{file: {folder}, split: dev, metric: mrr@10}}"], folder)
    assert names == ["faq"] and load_judgements(file).metric == "mrr@10"
    assert np.isfinite(len(load_judgements(file).queries)) and read_suites([str(folder)], folder)[0] == ["faq"]


def drawn(queries: int, documents: int) -> tuple[Judgements, np.ndarray, np.ndarray]:
    """Judgements of 1 to 3 for up to 130 documents a query, and embeddings."""
    draw = np.random.default_rng(0)
    counts = [1, 5, 130, *draw.integers(1, 20, size=queries - 3)]
    judged = tuple({int(d): float(draw.integers(1, 4)) for d in draw.permutation(documents)[:n]} for n in counts)
    texts = tuple(map(str, range(documents)))
    made = Judgements("faq", texts[:queries], texts, judged, (None,) * queries, "ndcg@10", "test", "h")
    return made, draw.normal(size=(queries, 8)), draw.normal(size=(documents, 8))


def test_each_query_is_that_of_ir_measures() -> None:
    """But for the query with 130 answers, whose `map@100` is over the hundred that can be found."""
    ir: Any = pytest.importorskip("ir_measures", reason="pip install ir_measures")
    judgements, queries_QD, documents_CD = drawn(40, 200)
    ours_QM = score_queries(judgements, queries_QD, documents_CD)
    unit_QD, unit_CD = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (queries_QD, documents_CD))
    cosines = unit_QD @ unit_CD.T
    run = {str(q): {str(d): float(row[d]) for d in range(len(row))} for q, row in enumerate(cosines)}
    judged = {str(q): {str(d): int(v) for d, v in each.items()} for q, each in enumerate(judgements.judged)}
    measures = {
        "ndcg@10": "nDCG@10",
        "mrr@10": "RR@10",
        "recall@1": "Success@1",
        "recall@10": "R@10",
        "map@100": "AP@100",
    }
    for metric, name in measures.items():
        theirs = {one.query_id: one.value for one in ir.iter_calc([ir.parse_measure(name)], judged, run)}
        factor = [1.3 if metric == "map@100" and q == 2 else 1.0 for q in range(40)]
        expected = [theirs[str(q)] * factor[q] for q in range(40)]
        assert ours_QM[:, RANK_METRICS.index(metric)] == pytest.approx(expected, abs=1e-6), metric


def test_metrics_of_a_query_by_hand() -> None:
    """Ranked: a miss, then answers at 2 and 4, and one beyond the tenth; the query itself is left out."""
    angles = np.array([0.0, 0.1, 0.2, 0.3, 0.4, *np.linspace(0.5, 1.0, 8)])
    documents_CD = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    judgements = Judgements(
        "faq", ("q",), tuple("abcdefghijklm"), ({2: 1.0, 4: 1.0, 12: 1.0},), (0,), "ndcg@10", "test", "h"
    )
    (row,) = score_queries(judgements, np.array([[1.0, 0.0]]), documents_CD)
    ideal = 1 + 1 / np.log2(3) + 1 / np.log2(4)
    expected = [(1 / np.log2(3) + 1 / np.log2(5)) / ideal, 1 / 2, 0.0, 2 / 3, (1 / 2 + 2 / 4 + 3 / 12) / 3]
    assert row == pytest.approx(expected, abs=1e-12)


def score(values: np.ndarray, data_hash: str = "h") -> Score:
    about = Protocol.read({"data_hash": data_hash})
    return Score(suite="faq", metric="mrr@10", value=float(values.mean()), protocol=about, queries=values)


def test_they_are_kept_beside_the_cosines_and_read_for_the_same_set_alone(tmp_path: Path) -> None:
    kept = keep_cosines(score(np.array([100.0, 50.0])), tmp_path)
    assert kept.queries is None and kept.file is None
    read = read_queries(tmp_path, "faq:mrr@10", "h")
    assert read is not None and read.tolist() == [100.0, 50.0]
    assert read_queries(tmp_path, "faq:mrr@10", "i") is None and read_queries(tmp_path, "faq", "h") is None
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:40])
    assert read_queries(tmp_path, "faq:mrr@10", "h") is None, "a damaged file is none"
