"""Documents judged for queries, in a file of the user's own: how high an encoder ranks those that answer.

For each query all documents of the file are ranked by their cosine with it, but for one of the query's own text that
does not answer it; of documents equally near those that answer come last. `ndcg@10`: gains are the judgements,
discounted by log2(1 + rank), over those of the best order; `mrr@10`: 1 / rank of the first document that answers, 0
beyond rank 10; `recall@1`: whether the nearest one answers. Each is the mean over queries, times 100.
Shape suffixes: Q queries, C documents, D embedding size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import get_args

import numpy as np

from cse_train.data_paths import DataPaths
from cse_train.evaluate.correlation import round_cosines
from cse_train.evaluate.models.text_model import TextModel
from cse_train.evaluate.protocol import Protocol, Score
from cse_train.evaluate.user_sets.kinds import open_user_file
from cse_train.evaluate.user_sets.ratings import number_of
from cse_train.evaluate.vectors import unit
from cse_train.fields import ConfigError
from cse_train.text.corpora.files import texts_hash
from cse_train.text.corpora.tables import FileState, file_state, text_of
from cse_train.user_files import Metric, UserFile

NAME = "judgements"
RANK_METRICS: tuple[Metric, ...] = get_args(Metric)
DEPTH = 10
QUERIES_AT_ONCE = 256
"""Queries whose cosines with all documents are held at once."""
TIES_RULE = "ties against"


@dataclass(frozen=True, eq=False)
class Judgements:
    """Queries and documents, each text once, and what a document is worth for a query."""

    name: str
    queries: tuple[str, ...]
    documents: tuple[str, ...]
    judged: tuple[dict[int, float], ...]
    """For each query: document -> a judgement above 0."""
    metric: Metric
    """What stands under the name."""
    split: str
    content_hash: str
    """Of texts, judgements and the metric."""


def load_judgements(file: UserFile) -> Judgements:
    """What a user's file holds. ConfigError, one line: no such column, a judgement below 0, no query with an answer."""
    return _load(file, file_state(file))


@lru_cache(maxsize=16)
def _load(file: UserFile, _state: FileState) -> Judgements:
    open_file = open_user_file(file)
    place, names = open_file.table.place, dict(open_file.columns)
    documents: dict[str, int] = {}
    judged: dict[str, dict[int, float]] = {}
    for where, values in open_file.table.read(list(names.values())):
        row = dict(zip(names, values, strict=True))
        document = documents.setdefault(text_of(row["document"], place, where, names["document"]), len(documents))
        if row["query"] is None or not str(row["query"]).strip():
            continue
        query = text_of(row["query"], place, where, names["query"])
        worth = number_of(row["relevance"], place, where, names["relevance"]) if "relevance" in row else 1.0
        if worth < 0:
            raise ConfigError([f"negative judgement: {place}, {where}: {worth:g}; give 0 for what does not answer"])
        if worth > 0:
            judged.setdefault(query, {})[document] = worth
    if not judged or len(documents) < 2:
        what = f"{len(judged)} queries with an answer and {len(documents)} documents"
        raise ConfigError([f"nothing to retrieve: {place} has {what}; give a query with an answer and two documents"])
    texts = list(documents)
    answers = (
        part
        for query, worths in sorted(judged.items())
        for part in ("query", query, *(part for row, worth in worths.items() for part in (texts[row], repr(worth))))
    )
    content = texts_hash([file.metric, *sorted(texts), *answers])
    return Judgements(
        file.name, tuple(judged), tuple(documents), tuple(judged.values()), file.metric, file.role, content
    )


def scores_of(judgements: Judgements, queries_QD: np.ndarray, documents_CD: np.ndarray) -> dict[Metric, float]:
    """Each metric, times 100, of rows in the set's order."""
    unit_QD, unit_CD = unit(queries_QD), unit(documents_CD)
    places = {text: place for place, text in enumerate(judgements.documents)}
    each = []
    for first in range(0, len(unit_QD), QUERIES_AT_ONCE):
        cosines = round_cosines(unit_QD[first : first + QUERIES_AT_ONCE] @ unit_CD.T)
        for query, row in enumerate(cosines, start=first):
            answers = judgements.judged[query]
            itself = places.get(judgements.queries[query])
            each.append(_score_query(row, answers, itself if itself not in answers else None))
    means = 100.0 * np.mean(each, axis=0)
    return dict(zip(RANK_METRICS, map(float, means), strict=True))


def _score_query(cosines_C: np.ndarray, answers: dict[int, float], left_out: int | None) -> tuple[float, float, float]:
    """ndcg@10, mrr@10 and recall@1 of one query."""
    gains = np.zeros(len(cosines_C))
    gains[list(answers)] = list(answers.values())
    order = np.lexsort((gains, -cosines_C))
    ranked = gains[order[order != left_out] if left_out is not None else order][:DEPTH]
    best = np.sort(gains)[::-1][:DEPTH]
    discounts = 1 / np.log2(np.arange(2, DEPTH + 2))
    ndcg = (ranked @ discounts[: len(ranked)]) / (best @ discounts[: len(best)])
    hits = np.flatnonzero(ranked > 0)
    return float(ndcg), 1.0 / (1 + hits[0]) if len(hits) else 0.0, float(len(hits) > 0 and hits[0] == 0)


def evaluate(model: TextModel, paths: DataPaths, *, members: Sequence[str] = ()) -> list[Score]:
    """The three metrics of each set, the one that stands under its name first. Raises as `load_judgements`."""
    files = [paths.data_set(name) for name in members]
    loaded = [load_judgements(file) for file in files if file is not None]
    return [score for judgements in loaded for score in _scores(model, judgements)]


def _scores(model: TextModel, judgements: Judgements) -> list[Score]:
    count = len(judgements.queries)
    embeddings = model.embed([*judgements.queries, *judgements.documents])
    values = scores_of(judgements, embeddings[:count], embeddings[count:])
    about = {"queries": count, "documents": len(judgements.documents)}
    first = [judgements.metric, *(metric for metric in RANK_METRICS if metric != judgements.metric)]
    return [
        Score(
            suite=judgements.name,
            metric=metric,
            value=values[metric],
            protocol=Protocol(
                suite=judgements.name,
                pooler=model.pooler,
                aggregation="mean over queries",
                split=judgements.split,
                max_length=model.max_length,
                rule=f"{metric}, {TIES_RULE}",
                data_hash=judgements.content_hash,
            ),
            details=about,
            headline=metric == judgements.metric,
        )
        for metric in first
    ]
