"""Suite `retrieval`: recall at k among the sentences of STS-B test, and nearest sentences (DiffCSE tables 9 and 10).

Every pair rated exactly 5 gives two queries, one per direction; a query is answered when its partner is among the k
nearest. No paper says what becomes of equal texts, but the values do. DiffCSE's recall@1 of 78.87 fits a corpus of all
2758 sentences without the query's own place, where 79.90 can be had with ties in favour and 63.92 with ties against.
D2CSE's 91.24 fits neither: its corpus must lack the texts equal to the query. All rules are scored. Shape suffixes: Q
queries, C corpus sentences.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cse_train.data_paths import DataPaths
from cse_train.evaluate.correlation import round_cosines
from cse_train.evaluate.pairs import load_pairs
from cse_train.evaluate.vectors import Embed, EmbeddedPairs, TextModel, embed_pairs, sts_protocol, unit
from cse_train.fields import ConfigError
from cse_train.results import Score

RETRIEVAL_RULES = ("exclude index", "exclude same text", "exclude same text, distinct corpus")
"""Sentences that are no candidates for a query: its own place; all with its text; and that with each text kept once."""
TIES = ("against", "in favour")
"""Order of candidates as near as the partner: ahead of the partner ("against") or behind it ("in favour")."""
DEPTHS = (1, 3, 5, 10)
"""Values of k for which recall@k is scored."""
NEAREST = 3
"""Number of nearest texts listed for each query."""
RETRIEVAL_SET = "sts_test"
TOP_RATING = 5.0
RETRIEVAL_COUNTS = (97, 2551)
"""Pairs of the top rating, and distinct sentences, in STS-B test."""
NAME = "retrieval"
COLUMNS = tuple(
    f"{RETRIEVAL_SET}:recall@{depth} ({rule}, ties {ties})"
    for rule in RETRIEVAL_RULES
    for ties in TIES
    for depth in DEPTHS
)
NEEDS = (RETRIEVAL_SET,)
SHOWN_QUERIES = (
    "you can do it , too .",
    "this is not a problem .",
    "i think that is not a bad idea .",
    "yes you got it .",
)
"""Queries of DiffCSE table 9 and D2CSE table 3, tokenised as SentEval's text; two are not in the corpus."""


@dataclass(frozen=True)
class RetrievalSearch:
    """Retrieval queries over a corpus under one of RETRIEVAL_RULES; texts are row numbers of an `EmbeddedPairs`."""

    corpus_C: np.ndarray
    """int64 [C]: row of each corpus sentence among the distinct texts."""
    queries_Q: np.ndarray
    """int64 [Q]: row of each query among the distinct texts."""
    answers_Q: np.ndarray
    """int64 [Q]: position of each query's partner in the corpus."""
    excluded_QC: np.ndarray
    """bool [Q, C]: True where a corpus sentence is no candidate for the query."""


def evaluate(model: TextModel, paths: DataPaths, *, queries: Sequence[str] = SHOWN_QUERIES) -> list[Score]:
    """Returns recall@1, 3, 5 and 10 under each rule and each way with ties, with the oracle's recall in `details`.

    The first recall@1 on the distinct corpus also holds the nearest texts of each of `queries`. Raises ConfigError for
    missing data.
    """
    pairs = load_pairs(RETRIEVAL_SET, paths)
    embedded = embed_pairs(model.embed, pairs)
    counts = (int((pairs.gold == TOP_RATING).sum()), len(embedded.texts))
    if counts != RETRIEVAL_COUNTS:
        expected, actual = (
            f"{top} pairs rated 5 and {distinct} distinct sentences" for top, distinct in (RETRIEVAL_COUNTS, counts)
        )
        line = f"unexpected data: suite={RETRIEVAL_SET}: {expected} expected"
        raise ConfigError([f"{line}, {actual} found; fetch it again"])
    lists = nearest(model.embed, embedded, queries)
    return [score for rule in RETRIEVAL_RULES for score in _scores(model, embedded, rule, lists)]


def make_search(left_rows: np.ndarray, right_rows: np.ndarray, gold: np.ndarray, rule: str) -> RetrievalSearch:
    """Returns the queries of pairs rated 5, left to right and then right to left, under one of RETRIEVAL_RULES."""
    assert rule in RETRIEVAL_RULES, rule
    sentences = np.concatenate([left_rows, right_rows])
    count, top = len(gold), np.flatnonzero(gold == TOP_RATING)
    places, partners = np.concatenate([top, top + count]), np.concatenate([top + count, top])
    queries = sentences[places]
    if rule == RETRIEVAL_RULES[2]:
        corpus = np.arange(sentences.max() + 1)
        return RetrievalSearch(corpus, queries, sentences[partners], queries[:, None] == corpus)
    itself = places[:, None] == np.arange(2 * count)
    excluded = itself if rule == RETRIEVAL_RULES[0] else queries[:, None] == sentences
    return RetrievalSearch(sentences, queries, partners, excluded)


def partner_ranks(search: RetrievalSearch, scores_QC: np.ndarray, ties: str = "against") -> np.ndarray:
    """Returns int64 [Q]: the partner's rank among the candidates, 1 for the nearest; `ties` is one of TIES."""
    assert ties in TIES, ties
    rows = np.arange(len(search.answers_Q))
    partner_Q1 = scores_QC[rows, search.answers_Q][:, None]
    rivals_QC = ~search.excluded_QC
    rivals_QC[rows, search.answers_Q] = False
    ahead_QC = scores_QC >= partner_Q1 if ties == "against" else scores_QC > partner_Q1
    ranks_Q: np.ndarray = 1 + (ahead_QC & rivals_QC).sum(axis=1)
    return ranks_Q


def recalls(ranks_Q: np.ndarray) -> dict[int, float]:
    """Returns k -> percent of the queries whose partner ranks k or better, for each k of DEPTHS."""
    return {depth: 100.0 * float(np.mean(ranks_Q <= depth)) for depth in DEPTHS}


def cosine_scores(search: RetrievalSearch, unit_UD: np.ndarray) -> np.ndarray:
    """Returns float64 [Q, C]: cosines of queries with corpus sentences, rounded for ranking."""
    by_text = round_cosines(unit_UD[search.queries_Q] @ unit_UD.T)
    scores_QC: np.ndarray = by_text[:, search.corpus_C]
    return scores_QC


def oracle_scores(search: RetrievalSearch) -> np.ndarray:
    """Returns [Q, C] of the best possible encoder: the query's own text first, the partner's second, then the rest."""
    same_QC = search.queries_Q[:, None] == search.corpus_C
    partner_QC = search.corpus_C[search.answers_Q][:, None] == search.corpus_C
    return np.where(same_QC, 2.0, np.where(partner_QC, 1.0, 0.0))


def nearest(embed: Embed, embedded: EmbeddedPairs, queries: Sequence[str]) -> list[dict[str, object]]:
    """Returns for each query the NEAREST nearest distinct texts of the set other than itself, with their cosines.

    Tied texts keep the order of the set.
    """
    if not queries:  # models refuse to embed nothing
        return []
    cosines = round_cosines(unit(embed(queries)) @ embedded.unit_UD.T)
    lists: list[dict[str, object]] = []
    for query, cosines_U in zip(queries, cosines, strict=True):
        order = np.argsort(-cosines_U, kind="stable")
        others = [at for at in order[: NEAREST + 1].tolist() if embedded.texts[at] != query][:NEAREST]
        shown = [{"text": embedded.texts[at], "cosine": float(cosines_U[at])} for at in others]
        lists.append({"query": query, "nearest": shown})
    return lists


def _scores(model: TextModel, embedded: EmbeddedPairs, rule: str, lists: list[dict[str, object]]) -> list[Score]:
    search = make_search(embedded.left_rows, embedded.right_rows, embedded.pairs.gold, rule)
    cosines_QC, best_QC = cosine_scores(search, embedded.unit_UD), oracle_scores(search)
    about = {"queries": len(search.queries_Q), "corpus": len(search.corpus_C)}
    scores = []
    for way in TIES:
        recall_at, ceilings = (recalls(partner_ranks(search, scores_QC, way)) for scores_QC in (cosines_QC, best_QC))
        protocol = sts_protocol(embedded.pairs, model, aggregation="mean over queries", rule=f"{rule}, ties {way}")
        scores += [
            Score(
                suite=RETRIEVAL_SET,
                metric=f"recall@{depth}",
                value=recall_at[depth],
                protocol=protocol,
                details={**about, "ceiling": ceilings[depth]},
            )
            for depth in DEPTHS
        ]
    if rule == RETRIEVAL_RULES[2]:
        scores[0] = replace(scores[0], details={**scores[0].details, "nearest": lists})
    return scores
