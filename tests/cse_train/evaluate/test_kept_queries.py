"""What each query gave: equal to trec_eval's numbers, kept in a file, and read back for the same set alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cse_train.evaluate.judgements import RANK_METRICS, Judgements, read_queries, score_queries
from cse_train.evaluate.score import keep_cosines
from cse_train.results import Protocol, Score


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
