"""Two models on the same pairs and on the same judged queries: intervals, peers' numbers, where they disagree."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats

from analysis.answers.judge import Judgement, Sides, Terms, judge_models
from analysis.ledger import Ledger
from analysis.tables.columns import entry_of
from analysis.tables.pair_cosines import ColumnCosines
from cse.cli import screen
from cse.compare.items import compare_by_pairs, compare_by_queries, disagreements, item_error
from cse_train.data_paths import DataPaths
from cse_train.evaluate.correlation import spearman
from cse_train.evaluate.judgements import RANK_METRICS, save_queries
from cse_train.evaluate.suites.registry import set_hash
from cse_train.user_files import UserFile
from tests.commands import printed
from tests.cse.compare.models import A, B, Capture, book, facts
from tests.cse_train.encoders import tokenizer_of, write_encoder
from tests.cse_train.evaluate.test_three_files import DOCUMENTS, JUDGED, QUERIES, beir
from tests.documents import validated
from tests.run_values import score_of


def judged(left: Sequence[np.ndarray], right: Sequence[np.ndarray], columns: int = 1) -> Judgement:
    """The word over queries on a column of `columns` that share the level; each side: values [Q] of its seeds."""
    a, b = (entry_of(dict(enumerate(float(each.mean()) for each in side))) for side in (left, right))
    sides = Sides(a, b, items=item_error(None, (left, right)))
    return judge_models({"faq": sides, **{str(n): sides for n in range(columns - 1)}}, Terms(over="sentences"))["faq"]


def drawn(sd: float, shift: float = 0.0, seed: int = 0, queries: int = 200) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    right_Q = generator.uniform(0, 100, size=queries)
    return right_Q + shift + sd * generator.normal(size=queries), right_Q


def test_the_interval_is_scipys_and_the_columns_share_the_level() -> None:
    left, right = drawn(20, 5)
    (made,) = compare_by_queries({"faq": ([left - 1, left + 1], [right])}, top=2)
    theirs, word = scipy.stats.ttest_rel(left, right), judged([left], [right])
    assert word.interval == pytest.approx(tuple(theirs.confidence_interval(0.95)), abs=1e-9)
    assert (word.word, word.items, made.seeds, made.queries) == ("better", 200, (2, 1), 200)
    assert made.difference == pytest.approx((left - right).mean()) == word.difference
    first, second = (abs(query.left - query.right) for query in made.largest)
    assert first == np.abs(left - right).max() >= second
    shared = judged([left], [right], columns=2)
    assert shared.interval == pytest.approx(tuple(theirs.confidence_interval(0.975)), abs=1e-9)
    assert shared.level == 0.025


def test_equal_models_are_a_tie() -> None:
    _, right = drawn(1)
    (same,) = compare_by_queries({"faq": ([right], [right])}, top=5)
    assert (judged([right], [right]).word, judged([right], [right]).interval, same.largest) == ("tie", (0.0, 0.0), [])
    left, right = drawn(1, shift=0.1)
    near = judged([left], [right])
    theirs = scipy.stats.ttest_rel(left, right).confidence_interval(0.9)
    assert (near.word, near.level) == ("tie", 0.1), "its shorter interval decides"
    assert near.interval == pytest.approx(tuple(theirs), abs=1e-9)


def draw_ndcg(generator: np.random.Generator, queries: int) -> np.ndarray:
    """Half of the queries find nothing, the others their one answer at some rank."""
    found = generator.choice([100.0, 63.1, 50.0, 43.1, 38.7], size=queries, p=[0.5, 0.2, 0.1, 0.1, 0.1])
    return np.where(generator.random(queries) < 0.5, 0.0, found)


@pytest.mark.parametrize("queries", [30, 50, 323])
def test_equally_good_models_are_told_apart_at_most_as_often_as_the_level(queries: int) -> None:
    """2,000 pairs of models that agree on seven queries of ten: at most 5% and three standard errors of chance."""
    wrong = 0
    for seed in range(2000):
        generator = np.random.default_rng(seed)
        left = draw_ndcg(generator, queries)
        right = np.where(generator.random(queries) < 0.7, left, draw_ndcg(generator, queries))
        wrong += judged([left], [right]).word in ("better", "worse")
    assert 0.01 < wrong / 2000 <= 0.05 + 3 * (0.05 * 0.95 / 2000) ** 0.5


PROMPTS: dict[str, dict[str, Any]] = {
    "sides": {"prompts": {"query": "town light ", "document": "old road "}},
    "query": {"prompts": {"query": "search the field ", "STS": "house "}},
    "default": {"prompts": {"document": "winter ", "query": ""}, "default_prompt_name": "document"},
    "bare": {},
}
"""Folder -> its prompts."""


@pytest.fixture(scope="module")
def library() -> Any:
    return pytest.importorskip("sentence_transformers", reason="pip install 'cse-search[sentence-transformers]'")


@pytest.fixture
def models(library: Any, somewhere: Path) -> list[Any]:
    """Three models behind prompts and a bare one, saved as folders of their names; and BEIR's `faq`."""
    beir(somewhere / "faq")
    modules, saved = library.sentence_transformer.modules, []
    for (name, given), pooler in zip(PROMPTS.items(), ("mean", "max", "mean", "cls"), strict=True):
        write_encoder(somewhere / f"of-{name}", "bert", tokenizer_of("[CLS]", "[SEP]"))
        parts = [modules.Transformer(f"of-{name}"), modules.Pooling(32, pooler)]
        library.SentenceTransformer(modules=parts, **given).save(name)
        saved.append(library.SentenceTransformer(name))
    return saved


FIRST, SECOND, *REST = PROMPTS
AGAINST = ("compare", FIRST, SECOND, *(word for name in REST for word in ("--also", name)))


def test_each_query_of_prompted_models_is_sentence_transformers_own(capsys: Capture, models: list[Any]) -> None:
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

    documents = {key: f"{title} {text}" for key, (title, text) in DOCUMENTS.items()}
    theirs: list[list[dict[str, float]]] = []
    for query, answers in JUDGED.items():
        judge = InformationRetrievalEvaluator({query: QUERIES[query]}, documents, {query: set(answers)})
        theirs.append([judge(model) for model in models])
    argv = (*AGAINST, "--suite", "{file: faq, split: test, name: faq}", "--top", "12")
    said = validated("compare", printed(capsys, *argv, "--format", "json"))
    for place, made in enumerate([said, *said["also"]], start=1):
        assert [each["column"] for each in made["queries"]] == ["faq", *(f"faq:{m}" for m in RANK_METRICS[1:])]
        for metric, each in zip(RANK_METRICS, made["queries"], strict=True):
            name = f"cosine_{'accuracy@1' if metric == 'recall@1' else metric}"
            pairs = [[100 * sides[side][name] for side in (0, place)] for sides in theirs]
            assert [each["left"], each["right"]] == pytest.approx(np.mean(pairs, axis=0), abs=1e-6), metric
            for query in each["apart"]:
                assert [query["left"], query["right"]] == pytest.approx(pairs[query["index"]], abs=1e-6), metric
                assert query["text"] == QUERIES[list(JUDGED)[query["index"]]]
        assert made["queries"][0]["apart"]
        (note,) = [
            note for note in made["notes"] if note.startswith("prompt differs: A query: town light , document: ")
        ]
        assert note.endswith(" and B none") == (place == 3)
    text = printed(capsys, *argv)
    assert f"({len(JUDGED)} queries; other seeds are not covered)" in text and "| sentences |" in text


def test_a_dev_file_behind_prompts_is_sentence_transformers_own(capsys: Capture, models: list[Any]) -> None:
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

    draw = np.random.default_rng(0)
    texts = [text for _, text in DOCUMENTS.values()]
    left, right, gold = texts[:30], texts[30:], draw.uniform(0, 5, size=30).round(1)
    lines = [f"{a}\t{b}\t{grade}" for a, b, grade in zip(left, right, gold, strict=True)]
    Path("dev.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *lines]) + "\n", encoding="utf8")
    judge = EmbeddingSimilarityEvaluator(left, right, gold.tolist(), main_similarity="cosine")
    theirs = [100 * judge(model)["spearman_cosine"] for model in models]
    said = facts(capsys, *AGAINST, "--suite", "dev.tsv")
    for place, made in enumerate([said, *said["also"]], start=1):
        (pairs,) = made["pairs"]
        assert [pairs["left"], pairs["right"]] == pytest.approx([theirs[0], theirs[place]], abs=1e-6)


def keep(ledger: Ledger, names: Sequence[str], values: np.ndarray, data_hash: str, off: float = 0.0) -> None:
    for seed, name in enumerate(names):
        each = values + seed
        save_queries(Path("results/runs", name, "scores"), "faq", each, data_hash)
        about = {"suite": "faq", "pooler": "cls", "max_length": 32, "precision": "fp32", "data_hash": data_hash}
        ledger.add_score(name, score_of("faq", float(each.mean()) + off, about))


def test_runs_keep_their_queries_and_a_line_says_who_has_not(
    capsys: Capture, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, right = book(ledger, 0.24, [62.0, 64.0]), book(ledger, 0.08, [60.0, 61.0])
    beir(Path("faq"))
    file = UserFile(name="faq", file=str(Path("faq").resolve()), role="test", split="test")
    data_hash = set_hash("faq", DataPaths(files=(file,)))
    values = np.linspace(0, 90, len(JUDGED)) + 1 / 7  # in full digits: whole numbers would hide up to a point
    keep(ledger, left, values + 3, data_hash)
    keep(ledger, right, values, data_hash)
    said = facts(capsys, "compare", A, B, "--column", "faq")
    (queries,), (column,) = said["queries"], said["columns"]
    assert (queries["queries"], queries["seeds"]) == (len(JUDGED), [2, 2]) and "text" not in queries["apart"][0]
    assert (column["word"], column["scope"], column["items"]) == ("better", "both", len(JUDGED))
    assert column["interval"] == pytest.approx([3, 3])
    monkeypatch.setattr(screen, "width", lambda: 80)
    text = re.sub(r"\x1b\[[\d;]*m", "", printed(capsys, "compare", A, B))
    assert max(map(len, text.split("\n"))) <= 80 and "Queries of faq on which they differ most" in text
    for form in ("tex", "html"):
        assert "both" in printed(capsys, "compare", A, B, "--format", form), form
    keep(ledger, right, values, data_hash, off=1.0)
    said = facts(capsys, "compare", A, B, "--column", "faq")
    assert said["columns"][0]["scope"] == "seeds" and "other sentences are not covered" in said["columns"][0]["reason"]
    assert (
        said["queries"] == []
        and f"faq by its queries: {B} has not kept them; cse eval scores it again" in said["notes"]
    )


def made(pairs: int, noise: tuple[float, float], seed: int = 0, seeds: int = 1) -> ColumnCosines:
    """Grades and two models whose cosines are the grades with noise."""
    generator = np.random.default_rng(seed)
    gold = generator.normal(size=pairs)
    rows = {row: [gold + sd * generator.normal(size=pairs) for _ in range(seeds)] for row, sd in enumerate(noise)}
    return ColumnCosines(gold, rows)


def judged_pairs(cosines: ColumnCosines, columns: int = 1) -> Judgement:
    """The word over sentences on a column of `columns` that share the level."""
    a, b = (entry_of(dict(enumerate([spearman(c, cosines.gold) for c in cosines.rows[row]]))) for row in (0, 1))
    sides = Sides(a, b, items=item_error(cosines, None))
    return judge_models({"a": sides, **{str(n): sides for n in range(columns - 1)}}, Terms(over="sentences"))["a"]


def test_the_difference_is_scipys_and_its_interval_that_of_a_plain_bootstrap() -> None:
    kept = made(120, (0.5, 1.0), seeds=2)

    def value(row: int, index: np.ndarray) -> float:
        seeds = [scipy.stats.spearmanr(c[index], kept.gold[index]).statistic for c in kept.rows[row]]
        return 100 * float(np.mean(seeds))

    every = np.arange(120)
    (compared,), word = compare_by_pairs({"sts_dev": kept}), judged_pairs(kept)
    assert compared.difference == word.difference == pytest.approx(value(0, every) - value(1, every))
    generator = np.random.default_rng(1)
    drawn = generator.integers(120, size=(600, 120))
    plain = np.quantile([value(0, index) - value(1, index) for index in drawn], (0.025, 0.975))
    assert word.interval == pytest.approx(plain, abs=1.0)
    assert (word.word, word.scope, word.n, word.items) == ("better", "sentences", 120, 120)
    assert word.reason == "the 95% interval excludes 0 (120 pairs; other seeds are not covered)"
    assert compared.seeds == (2, 2)


def test_columns_share_the_level() -> None:
    alone, shared = (judged_pairs(made(100, (0.5, 0.6)), columns) for columns in (1, 5))
    assert alone.interval is not None and shared.interval is not None
    assert shared.interval[1] - shared.interval[0] > alone.interval[1] - alone.interval[0]
    assert (alone.level, shared.level) == (0.05, 0.01)


def test_equal_models_are_a_tie_and_a_side_without_cosines_is_left_out() -> None:
    kept = made(50, (0.5, 0.5))
    same, half = (ColumnCosines(kept.gold, {0: kept.rows[0], **more}) for more in ({1: kept.rows[0]}, {}))
    (compared,) = compare_by_pairs({"a": same, "b": half}, top=5)
    assert (compared.column, compared.disagreements, item_error(half, None)) == ("a", [], None)
    assert (judged_pairs(same).word, judged_pairs(same).interval) == ("tie", (0.0, 0.0))


def test_an_open_word_says_how_many_pairs_it_lacks() -> None:
    word = judged_pairs(made(100, (0.5, 0.6), 3))
    assert (word.word, word.more_seeds) == ("undecided", None) and word.more_items is not None
    told = f"(100 pairs; other seeds are not covered); about {word.more_items} more pairs would decide it, half of the"
    assert told in word.reason


def test_equally_good_models_are_rarely_told_apart() -> None:
    """200 sets of 150 pairs at 5%: three standard errors of chance above it."""
    wrong = np.mean([judged_pairs(made(150, (1.0, 1.0), seed)).word in ("better", "worse") for seed in range(200)])
    assert wrong <= 0.05 + 3 * (0.05 * 0.95 / 200) ** 0.5


def test_disagreements_by_hand() -> None:
    """Ranks of A 1 2 3 4; of B's seeds 4 2 3 1 and 3 2 4 1, whose means are 3.5 2 3.5 1."""
    gold = np.array([0.0, 1.0, 2.0, 3.0])
    left, right = [np.array([0.1, 0.2, 0.3, 0.4])], [np.array([0.9, 0.2, 0.3, 0.1]), np.array([0.8, 0.3, 0.9, 0.1])]
    listed = disagreements(left, right, gold, 2)
    assert [(pair.index, pair.left_rank, pair.right_rank, pair.grade_rank) for pair in listed] == [
        (3, 4.0, 1.0, 4.0),
        (0, 1.0, 3.5, 1.0),
    ]
    assert [pair.nearer for pair in listed] == ["A", "A"] and listed[0].grade == 3.0
    assert len(disagreements(left, right, gold, 9)) == 3
