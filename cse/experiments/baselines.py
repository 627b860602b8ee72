"""Rows without training, computed and stored in the ledger, where tables read them."""

import contextlib

from analysis.ledger import Baselines, Ledger
from analysis.ledger.baselines import Key
from cse.tables.baselines import NAMES, distinct, key_of
from cse.tables.build import columns_of
from cse_train.backbone.backbone import load_backbone
from cse_train.backbone.identity import backbone_identity
from cse_train.data_paths import DataPaths
from cse_train.evaluate import baselines as rows
from cse_train.evaluate.pairs import load_pairs
from cse_train.fields import ConfigError
from cse_train.text.sources import open_source
from search_spaces.cells import ResolvedSpace, setups

ROWS = "2"
"""Raised when other rows are computed, so that stored ones are computed again."""


def ensure(resolved: ResolvedSpace, ledger: Ledger, paths: DataPaths) -> None:
    """Compute and store what a space's table lacks; a set whose data is not at hand is left out."""
    have = {entry.key: entry.inputs for entry in ledger.baselines()}
    for key in (key_of(setup, column) for setup in distinct(setups(resolved)) for column in columns_of(resolved)):
        with contextlib.suppress(ConfigError):
            inputs = _inputs(key, paths)
            if have.get(key) != inputs:
                ledger.store_baselines([Baselines(*key, inputs, computed(key, paths))])


def _inputs(key: Key, paths: DataPaths) -> dict[str, str]:
    """Content hashes of what the values come from."""
    suite, encoder, corpus, _ = key
    return {
        "rows": ROWS,
        "encoder": backbone_identity(encoder)[0],
        "corpus": open_source(corpus, paths).content_hash,
        "suite": load_pairs(suite, paths).content_hash,
    }


def computed(key: Key, paths: DataPaths) -> dict[str, float]:
    """Untrained poolers, whitening, word counts, idf bag of words and, where installed, GloVe on one set."""
    suite, encoder, corpus, length = key
    pairs = load_pairs(suite, paths)
    texts = (row[0] for row in open_source(corpus, paths).rows())
    backbone = load_backbone(encoder)
    values = {
        NAMES.get(name, f"untrained {name}"): value
        for name, value in rows.untrained_rows(backbone, pairs, length).items()
    }
    values |= {"word counts": rows.word_counts(pairs), "idf bag of words": rows.idf_bag_of_words(pairs, texts)}
    glove = rows.glove_average(pairs)
    return values if glove is None else values | {"GloVe-50d average": glove}
