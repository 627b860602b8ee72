"""Computes table rows that need no training, such as untrained encoders, and stores them in the ledger."""

import contextlib
import math
import sys
from dataclasses import replace

from analysis.answers.baselines import UNTRAINED_NAMES, distinct, key_of
from analysis.answers.build import columns_of
from analysis.ledger import Baselines, Ledger
from analysis.ledger.baselines import Key
from cse_train.backbone.backbone import load_backbone
from cse_train.backbone.identity import backbone_identity, prompt_identity
from cse_train.data_paths import DataPaths
from cse_train.evaluate import baselines as rows
from cse_train.evaluate.pairs import load_pairs
from cse_train.fields import ConfigError
from cse_train.text.corpora import open_source
from cse_train.text.vector_files import names_vectors
from search_spaces.cells import ResolvedSpace, setups

ROWS_VERSION = "2"
"""Version of the computed rows; raised when they change, so that stored ones are computed again."""
IDF = "idf bag of words"


def ensure(resolved: ResolvedSpace, ledger: Ledger, paths: DataPaths) -> None:
    """Computes and stores the rows without training that a space's table lacks.

    Left out are sets whose data are not at hand, and runs on word vectors, which are no encoder before training.
    """
    stored = {entry.key: entry for entry in ledger.baselines()}
    encoders = [setup for setup in distinct(setups(resolved)) if not names_vectors(str(setup["train.encoder"]))]
    for key in (key_of(setup, column) for setup in encoders for column in columns_of(resolved)):
        with contextlib.suppress(ConfigError):
            required = Baselines(*key, _inputs(key, paths), {})
            if key not in stored or stored[key].inputs != required.inputs:
                matching_rows = (
                    other.rows for other in stored.values() if _without_corpus(other) == _without_corpus(required)
                )
                shared = next(matching_rows, None)
                if shared is None and sys.stderr.isatty():
                    print(f"scoring the rows without training on {key[0]} ...", file=sys.stderr, flush=True)
                values = compute(key, paths) if shared is None else {**shared, IDF: idf_bag_of_words(key, paths)}
                stored[key] = replace(required, rows=values)
                ledger.store_baselines([stored[key]])


def _without_corpus(entry: Baselines) -> tuple[str, int, dict[str, str]]:
    """Returns the inputs of all rows except the idf bag of words, which alone depends on the corpus."""
    inputs = {name: value for name, value in entry.inputs.items() if name != "corpus"}
    return entry.suite, entry.dev_max_length, inputs


def _inputs(key: Key, paths: DataPaths) -> dict[str, str]:
    """Returns content hashes of the inputs from which the rows are computed."""
    suite, encoder, corpus, _ = key
    prompt = prompt_identity(encoder, None)
    return {
        **({"prompt": prompt} if prompt else {}),
        "rows": ROWS_VERSION,
        "encoder": backbone_identity(encoder)[0],
        "corpus": open_source(corpus, paths).content_hash,
        "suite": load_pairs(suite, paths).content_hash,
    }


def compute(key: Key, paths: DataPaths) -> dict[str, float]:
    """Returns row name -> score of each row without training, on one set.

    Rows are untrained poolers, whitening, word counts, an idf bag of words and, where installed, GloVe.

    A row whose cosines cannot be ranked has no score, and is left out.
    """
    suite, encoder, _, length = key
    pairs = load_pairs(suite, paths)
    backbone = load_backbone(encoder)
    values = {
        UNTRAINED_NAMES.get(name, f"untrained {name}"): value
        for name, value in rows.score_untrained(backbone, pairs, length).items()
    }
    values |= {"word counts": rows.word_counts(pairs), IDF: idf_bag_of_words(key, paths)}
    glove = rows.glove_average(pairs)
    values |= {} if glove is None else {"GloVe-50d average": glove}
    return {name: value for name, value in values.items() if math.isfinite(value)}


def idf_bag_of_words(key: Key, paths: DataPaths) -> float:
    """Returns the score of an idf-weighted bag of words, the only row that depends on the corpus."""
    suite, _, corpus, _ = key
    return rows.idf_bag_of_words(load_pairs(suite, paths), (row[0] for row in open_source(corpus, paths).rows()))
