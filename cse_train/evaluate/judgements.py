"""Retrieval sets of the user's own: how high an encoder ranks the documents judged to answer each query.

For each query all documents of the file are ranked by their cosine with it, but for one of the query's own text (in
three files: of its ID) that does not answer it; of documents equally near those that answer come last. Each number is
the mean over queries, times 100, of
- `ndcg@10`: gains are the judgements, discounted by log2(1 + rank), over those of the best order;
- `mrr@10`: 1 / rank of the first document that answers, 0 beyond rank 10;
- `recall@1`: whether the nearest one answers;
- `recall@10`: the share of those that answer which are among the ten nearest;
- `map@100`: the precision at each that answers among the hundred nearest, summed, over as many as answer, 100 at most.
Judgements are read as trec_eval reads them: what has none and what has one below 0 answers nothing, and an answer that
is not among the documents counts in the best order and in as many as answer, where no encoder reaches it.
Shape suffixes: Q queries, C documents, D embedding size, M metrics.
"""

import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import get_args

import numpy as np

from cse_train.data_paths import DataPaths
from cse_train.evaluate.correlation import round_cosines
from cse_train.evaluate.user_sets import number_of, open_user_file
from cse_train.evaluate.vectors import TextModel, protocol_of, unit
from cse_train.fields import ConfigError
from cse_train.files import replace_file
from cse_train.results import Score
from cse_train.text.files import texts_hash
from cse_train.text.tables import FileState, file_state, text_of
from cse_train.user_files import Metric, UserFile

NAME = "judgements"
RANK_METRICS: tuple[Metric, ...] = get_args(Metric)
"""Names of the retrieval metrics, in the order of the columns of `score_queries`."""
DEPTH, MAP_DEPTH = 10, 100
"""Ranks that count for ndcg, mrr and recall, and for map."""
QUERIES_AT_ONCE = 256
"""Most queries whose documents are ranked in one block."""
COSINES_AT_ONCE = 2**25
"""Most cosines of queries with all documents that are held at once."""
TIES_RULE = "ties against"
SIDES = ("query", "document")
"""Names of the prompts for queries and for documents."""


@dataclass(frozen=True, eq=False)
class Judgements:
    """A retrieval set: queries, documents, and the relevance of documents for queries; each text or ID occurs once."""

    name: str
    queries: tuple[str, ...]
    documents: tuple[str, ...]
    judged: tuple[dict[int, float], ...]
    """Judgements above 0 of each query: document -> judgement."""
    itself: tuple[int | None, ...]
    """Document with a query's own text or ID, left out of its ranking unless it answers; None where there is none."""
    metric: Metric
    """Metric that is stored under the set's own name."""
    split: str
    content_hash: str
    """Hash of texts, judgements and the metric."""
    unreachable: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    """Query -> judgements above 0 of answers that are not among the documents."""
    negative: int = 0
    """Number of judgements below 0, which count as 0."""

    def notes(self) -> list[str]:
        """Returns lines on judgements that count in an unexpected way, with their number."""
        lost = sum(map(len, self.unreachable.values()))
        counts = {
            "answers that are not among the documents, counted as not found": lost,
            "judgements below 0, counted as 0": self.negative,
        }
        return [f"{meaning}: {count}" for meaning, count in counts.items() if count]


def load_judgements(file: UserFile) -> Judgements:
    """Loads a user's retrieval set. ConfigError, one line: no such column, a judgement that is no number, no query with
    an answer among the documents."""
    return _load(file, file_state(file))


@lru_cache(maxsize=16)
def _load(file: UserFile, _state: FileState) -> Judgements:
    open_file = open_user_file(file)
    place, names = open_file.table.place, dict(open_file.columns)
    documents, queries = _Texts(), _Texts()
    judged: dict[int, dict[int, float]] = {}
    lost: dict[int, dict[str | None, float]] = {}
    negative = 0
    for where, values in open_file.table.read(list(names.values())):
        row = dict(zip(names, values, strict=True))
        text, key = row["document"], row.get("document_id")
        if is_known := text is not None or key is None:
            document = documents.add(text_of(text, place, where, names["document"]), key)
        if row["query"] is None or not str(row["query"]).strip():
            continue
        query = text_of(row["query"], place, where, names["query"])
        worth = number_of(row["relevance"], place, where, names["relevance"]) if "relevance" in row else 1.0
        negative += worth < 0
        if worth > 0:
            asked = queries.add(query, row.get("query_id"))
            relevant = judged.setdefault(asked, {})
            if is_known:
                relevant[document] = worth
            else:
                lost.setdefault(asked, {})[key] = worth
    if not any(judged.values()) or len(documents.texts) < 2:
        counts = f"{sum(map(bool, judged.values()))} queries with an answer and {len(documents.texts)} documents"
        counts += f", and {sum(map(len, lost.values()))} answers that are not among these" if lost else ""
        raise ConfigError([f"nothing to retrieve: {place} has {counts}; give a query with an answer and two documents"])
    answers = tuple(judged[query] for query in range(len(judged)))
    matches = [documents.places.get(key) for key in queries.places]
    itself = tuple(None if place in answers[query] else place for query, place in enumerate(matches))
    content = _hash(file.metric, queries, documents, answers, lost)
    every = {query: tuple(worths.values()) for query, worths in lost.items()}
    texts = tuple(queries.texts), tuple(documents.texts)
    return Judgements(file.name, *texts, answers, itself, file.metric, file.role, content, every, negative)


class _Texts:
    """Collection of texts in order of first appearance, keyed by ID, or by the text where there is no ID."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.places: dict[str, int] = {}

    def add(self, text: str, key: str | None) -> int:
        place = self.places.setdefault(text if key is None else key, len(self.texts))
        if place == len(self.texts):
            self.texts.append(text)
        return place


def _hash(
    metric: Metric,
    queries: _Texts,
    documents: _Texts,
    answers: Sequence[dict[int, float]],
    lost: Mapping[int, Mapping[str | None, float]],
) -> str:
    """Returns the hash of texts, judgements and the metric; for sets in three files, IDs count too."""
    keys = list(documents.places)
    parts = [metric, *sorted(keys)]
    for query, place in sorted(queries.places.items()):
        parts += ["query", query, *(part for row, worth in answers[place].items() for part in (keys[row], repr(worth)))]
        parts += [part for key, worth in lost.get(place, {}).items() for part in ("unreachable", str(key), repr(worth))]
    if keys != documents.texts:
        named = (texts.texts[place] for texts in (documents, queries) for _, place in sorted(texts.places.items()))
        parts += ["IDs", *named]
    return texts_hash(parts)


def scores_of(judgements: Judgements, queries_QD: np.ndarray, documents_CD: np.ndarray) -> dict[Metric, float]:
    """Returns metric -> mean over queries, times 100; rows of the embeddings are in the set's order."""
    means = 100.0 * np.mean(score_queries(judgements, queries_QD, documents_CD), axis=0)
    return dict(zip(RANK_METRICS, map(float, means), strict=True))


def score_queries(judgements: Judgements, queries_QD: np.ndarray, documents_CD: np.ndarray) -> np.ndarray:
    """Returns each query's value, 0 to 1, by each metric of RANK_METRICS, as float64 [Q, M]."""
    unit_QD, unit_CD = unit(queries_QD), unit(documents_CD)
    each = []
    at_once = max(1, min(QUERIES_AT_ONCE, COSINES_AT_ONCE // len(unit_CD)))
    for first in range(0, len(unit_QD), at_once):
        cosines = round_cosines(unit_QD[first : first + at_once] @ unit_CD.T)
        for query, row in enumerate(cosines, start=first):
            lost = judgements.unreachable.get(query, ())
            each.append(_score_query(row, judgements.judged[query], judgements.itself[query], lost))
    return np.array(each)


def _score_query(
    cosines_C: np.ndarray, answers: dict[int, float], left_out: int | None, lost: Sequence[float]
) -> tuple[float, ...]:
    """Returns the metrics of one query, in the order of RANK_METRICS."""
    gains = np.zeros(len(cosines_C))
    gains[list(answers)] = list(answers.values())
    # lexsort sorts by its last key first: nearest first, and of equally near documents the answers last.
    order = np.lexsort((gains, -cosines_C))
    every = gains[order[order != left_out] if left_out is not None else order]
    ranked = every[:DEPTH]
    best = np.sort(np.append(gains, lost))[::-1][:DEPTH]
    # Answers outside of the documents count here and in the best order, which no encoder can then reach.
    count = len(answers) + len(lost)
    discounts = 1 / np.log2(np.arange(2, DEPTH + 2))
    ndcg = (ranked @ discounts[: len(ranked)]) / (best @ discounts[: len(best)])
    hits, deep = np.flatnonzero(ranked > 0), np.flatnonzero(every[:MAP_DEPTH] > 0)
    precisions = np.arange(1, len(deep) + 1) / (1 + deep)
    return (
        float(ndcg),
        1.0 / (1 + hits[0]) if len(hits) else 0.0,
        float(len(hits) > 0 and hits[0] == 0),
        len(hits) / count,
        float(precisions.sum()) / min(count, MAP_DEPTH),
    )


def evaluate(model: TextModel, paths: DataPaths, *, members: Sequence[str] = ()) -> list[Score]:
    """Returns the metrics of each set, the one stored under the set's name first. Raises as `load_judgements`."""
    files = [paths.data_set(name) for name in members]
    loaded = [load_judgements(file) for file in files if file is not None]
    return [score for judgements in loaded for score in _scores(model, judgements)]


def _find_prompts(model: TextModel) -> dict[str, str]:
    """Returns the prompts for queries and for documents, empty text for a missing one, as sentence-transformers'
    encode_query and encode_document choose them. No entry for a model without any prompt in use."""
    prompts = {side: model.prompts.get(side, "") for side in SIDES} if model.prompts else {}
    return prompts if model.prompt or any(prompts.values()) else {}


def _scores(model: TextModel, judgements: Judgements) -> list[Score]:
    prompts, count = _find_prompts(model), len(judgements.queries)
    if prompts:
        query, document = (prompts[side] for side in SIDES)
        queries_QD, documents_CD = (
            model.embed(judgements.queries, query),
            model.embed(judgements.documents, document),
        )
    else:
        queries_QD, documents_CD = np.split(model.embed([*judgements.queries, *judgements.documents]), [count])
    each_QM = score_queries(judgements, queries_QD, documents_CD)
    values = dict(zip(RANK_METRICS, 100.0 * np.mean(each_QM, axis=0), strict=True))
    shown = ", ".join(f"{name}: {text}" for name, text in prompts.items())
    protocol = protocol_of(
        model, judgements.name, judgements.split, judgements.content_hash, aggregation="mean over queries"
    )
    return [
        Score(
            suite=judgements.name,
            metric=metric,
            value=float(values[metric]),
            protocol=replace(protocol, prompt=shown, rule=f"{metric}, {TIES_RULE}"),
            details={"queries": count, "documents": len(judgements.documents)},
            queries=100.0 * each_QM[:, RANK_METRICS.index(metric)],
            headline=metric == judgements.metric,
        )
        for metric in dict.fromkeys((judgements.metric, *RANK_METRICS))
    ]


def save_queries(folder: Path, column: str, values_Q: np.ndarray, data_hash: str) -> None:
    """Writes the queries' values of one column; `values_Q` times 100, in the order of the set with hash `data_hash`."""

    def write(aside: Path) -> None:
        with aside.open("wb") as file:
            np.savez(file, values=values_Q, data_hash=np.array(data_hash))

    replace_file(_queries_file(folder, column), write)


def read_queries(folder: Path, column: str, data_hash: str) -> np.ndarray | None:
    """Reads the queries' values, float64 [queries]; None where the file is absent, damaged or of other data."""
    try:
        with np.load(_queries_file(folder, column), allow_pickle=False) as file:
            return np.asarray(file["values"], dtype=float) if str(file["data_hash"]) == data_hash else None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _queries_file(folder: Path, column: str) -> Path:
    return folder / f"queries-{re.sub('[^A-Za-z0-9_]+', '-', column)}.npz"
