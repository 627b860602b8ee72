"""Suite `repetition`: does a sentence seem closer to a query once their shared words are doubled (ESimCSE 5.5)?

The paper's recipe (table 8): a random sentence of Wikipedia is the query q; a random candidate s1 overlaps with it in
13-17 % of its tokens; s2 is s1 with the shared words repeated; mean cosines <q, s1> and <q, s2> of 100 queries are
compared.

Choices where the recipe is silent. Tokens are words, compared without regard to case; punctuation is none. The overlap
is the number of shared tokens over that of both sentences together, shared ones counted once ("union"): the paper's
example doubles three words of a nine-word query and a twelve-word candidate, 3 / (9 + 12 - 3) = 16.7 %, which lies in
the range, while it is 25 % of the candidate alone and 33 % of the query. (The example leaves "it" and "like" as they
are although both sentences have them; here every occurrence of every shared word is doubled.) Queries and candidates of
fewer than five words, which are titles mostly, are passed over.
"""

import re
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy as np

from cse_train.data_paths import DataPaths
from cse_train.evaluate.suites.registry import require_corpus
from cse_train.evaluate.vectors import Embed, TextModel, protocol_of, unit
from cse_train.fields import ConfigError
from cse_train.results import Score
from cse_train.text.corpora import open_source
from cse_train.text.files import texts_hash

REPETITION_QUERIES = 100
REPETITION_SEED = 0
LOWEST_SHARE, HIGHEST_SHARE = 0.13, 0.17
"""Range of the overlap of query and candidate, ends included."""
SHORTEST_SENTENCE = 5
"""Least number of words of a query and of a candidate."""
REPETITION_TRIES = 2000
"""Most candidates drawn for one query; a query that finds none among them is replaced by another."""
NAME = "repetition"
UNRANKED = ("similarity", "similarity_doubled", "bias")
COLUMNS = tuple(f"{NAME}:{metric}" for metric in UNRANKED)
NEEDS = ("wiki",)
REPEATED_WORD = re.compile(r"\w+(?:['’-]\w+)*")

Words = Counter[str]


@dataclass(frozen=True)
class Triple:
    """A query, a sentence that shares words with it, and that sentence with the shared words doubled."""

    query: str
    once: str
    doubled: str


def evaluate(model: TextModel, paths: DataPaths) -> list[Score]:
    """Returns mean cosines times 100 before and after doubling (`similarity`, `similarity_doubled`) and their
    difference, the `bias`. Raises ConfigError for missing or too little text."""
    require_corpus("wiki", NAME, paths)
    triples = draw_triples([row[0] for row in open_source("wiki", paths).rows()])
    cosines = 100 * similarities(model.embed, triples)
    gains = cosines[:, 1] - cosines[:, 0]
    data_hash = texts_hash(text for triple in triples for text in (triple.query, triple.once, triple.doubled))
    overlaps = f"overlap {LOWEST_SHARE:.0%}-{HIGHEST_SHARE:.0%} of union"
    rule = f"{REPETITION_QUERIES} queries, seed {REPETITION_SEED}, {overlaps}"
    protocol = protocol_of(model, NAME, "train", data_hash, aggregation="mean over queries", rule=rule)
    error = float(gains.std(ddof=1) / np.sqrt(REPETITION_QUERIES))
    values = {
        "similarity": (cosines[:, 0].mean(), {}),
        "similarity_doubled": (cosines[:, 1].mean(), {}),
        "bias": (gains.mean(), {"standard_error": error}),
    }
    return [
        Score(suite=NAME, metric=metric, value=float(value), protocol=protocol, details=details)
        for metric, (value, details) in values.items()
    ]


def draw_triples(
    sentences: Sequence[str], count: int = REPETITION_QUERIES, seed: int = REPETITION_SEED
) -> list[Triple]:
    """Draws `count` triples with distinct queries, by a generator seeded with `seed`; ConfigError for too few."""
    rng = np.random.default_rng([seed, 0xE6])
    triples: list[Triple] = []
    for at in rng.permutation(len(sentences)).tolist():
        if len(triples) == count:
            break
        once = _candidate(sentences, sentences[at], rng)
        if once is not None:
            triples.append(Triple(sentences[at], once, double(once, words(sentences[at]) & words(once))))
    if len(triples) < count:
        shares = f"{LOWEST_SHARE:.0%} to {HIGHEST_SHARE:.0%}"
        have = f"{len(triples)} of {count} queries found a sentence with {shares} of shared words"
        raise ConfigError([f"too little text: sentences={len(sentences)}: {have}; give a larger corpus"])
    return triples


def words(text: str) -> Words:
    """Counts each word of a text, in lower case."""
    return Counter(word.lower() for word in REPEATED_WORD.findall(text))


def double(text: str, shared: Container[str]) -> str:
    """Doubles every occurrence of the shared words; after a capitalised first word in lower case ("This this is")."""

    def twice(match: re.Match[str]) -> str:
        word = match[0]
        copy = word.lower() if match.start() == 0 else word
        return f"{word} {copy}" if word.lower() in shared else word

    return REPEATED_WORD.sub(twice, text)


def overlap(query: Words, candidate: Words) -> float:
    """Returns the number of shared words divided by the number of words in the union, counted with multiplicity."""
    return (query & candidate).total() / (query | candidate).total()


def _candidate(sentences: Sequence[str], query: str, rng: np.random.Generator) -> str | None:
    """Returns a random sentence in the range of overlap; None for a query that is too short or finds none."""
    query_words = words(query)
    if query_words.total() < SHORTEST_SENTENCE:
        return None
    drawn: list[int] = rng.integers(len(sentences), size=REPETITION_TRIES).tolist()
    for at in drawn:
        words_of = words(sentences[at])
        if words_of.total() >= SHORTEST_SENTENCE and LOWEST_SHARE <= overlap(query_words, words_of) <= HIGHEST_SHARE:
            return sentences[at]
    return None


def similarities(embed: Embed, triples: Sequence[Triple]) -> np.ndarray:
    """Returns float64 [triples, 2]: cosines <query, once> and <query, doubled>."""
    columns = [[getattr(triple, part) for triple in triples] for part in ("query", "once", "doubled")]
    query, once, doubled = np.split(unit(embed([text for column in columns for text in column])), 3)
    return np.stack([(query * once).sum(1), (query * doubled).sum(1)], axis=1)
