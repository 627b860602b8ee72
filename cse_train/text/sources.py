"""Opens training corpora by name (`train.corpus`). Opening is cheap: the hash is known before the rows are read."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError, nearest
from cse_train.text.corpora import generated
from cse_train.text.corpora.files import (
    LABELLED_COLUMNS,
    PAIR_COLUMNS,
    TEXTS_ALONE,
    Source,
    file_hash,
    file_source,
    join_hash,
    texts_hash,
)
from cse_train.text.corpora.hub import hub_source
from cse_train.text.corpora.snli import snli_source
from cse_train.text.corpora.target_texts import target_files, target_rows
from cse_train.text.corpora.user_text import user_source

CORPUS_NAMES = (
    *("wiki", "documents", "nli", "snli", "pairs:NAME", "target:NAME", "generated", "file"),
    "hf:NAME[:SPLIT[:COLUMN]]",
)
"""Values that `train.corpus` may have; words in capitals are placeholders."""
GENERATED_SENTENCES = 24_000
GENERATED_TEXT_SEED = 0


def open_source(corpus: str, paths: DataPaths) -> Source:
    """Opens the corpus that `train.corpus` names. ConfigError, one line, where it is unknown, missing or unreadable."""
    if (file := paths.corpus(corpus)) is not None:
        return user_source(file)
    if corpus.startswith("hf:"):
        return hub_source(corpus)
    if corpus.startswith("pairs:"):
        return _open_pairs(corpus, paths)
    if corpus.startswith("target:"):
        return _open_target(corpus, paths)
    openers = {
        "wiki": lambda: file_source("wiki", _require("wiki", paths.wiki)),
        "documents": lambda: file_source("documents", _require("documents", paths.documents)),
        "nli": lambda: file_source("nli", _require("nli", paths.nli)),
        "snli": lambda: snli_source(paths),
        "file": lambda: file_source("file", _require("file", paths.train_file)),
        "generated": _open_generated,
    }
    if corpus not in openers:
        hint = nearest(corpus, CORPUS_NAMES)
        raise ConfigError([f"unknown corpus: train.corpus={corpus}; {hint}"])
    return openers[corpus]()


def wrong_columns(corpus: str, have: Sequence[str], method: str, wanted: Sequence[str]) -> str:
    """Returns the message for a corpus whose columns do not suit a method and its options; empty where they do.

    Two cases are refused: a column that the method reads is missing, or pairs have labels that the method would ignore.
    """
    absent = [name for name in wanted if name not in have]
    if absent:
        line = f"wrong columns: train.corpus={corpus} has {', '.join(have)}"
        line = f"{line}; method={method} reads {', '.join(wanted)} with these options"
        named = ", ".join(f"{name}: NAME" for name in wanted)
        return f"{line}; name them by columns: {{{named}}}, or give another file or other options"
    if tuple(wanted) == PAIR_COLUMNS[:2] and tuple(have) == LABELLED_COLUMNS:
        line = f"labels unread: train.corpus={corpus} has {have[-1]}, and method={method} makes one of each pair"
        return f"{line} with these options; give a file of entailments, or name the texts alone: {TEXTS_ALONE}"
    return ""


def rows_of(corpus: str, paths: DataPaths) -> int:
    """Returns the number of rows of the corpus that `train.corpus` names, cached by content hash."""
    source = open_source(corpus, paths)
    if source.content_hash not in _ROWS:
        _ROWS[source.content_hash] = sum(1 for _ in source.rows())
    return _ROWS[source.content_hash]


_ROWS: dict[str, int] = {}
"""Content hash of a corpus -> its number of rows, for `rows_of`."""


def lower_cased(source: Source) -> Source:
    """Returns a corpus with its text lower-cased by `str.lower`, under a hash of its own."""
    hashed = join_hash("lower", source.content_hash)
    return replace(source, content_hash=hashed, rows=lambda: (tuple(map(str.lower, row)) for row in source.rows()))


def add_prompt(source: Source, prompt: str) -> Source:
    """Returns a corpus with a prompt in front of every text; labels stay as they are."""
    if not prompt:
        return source
    fronts = ["" if column == LABELLED_COLUMNS[-1] else prompt for column in source.columns]
    hashed = join_hash("prompt", prompt, source.content_hash)
    rows = lambda: (tuple(map(str.__add__, fronts, row)) for row in source.rows())  # noqa: E731
    return replace(source, content_hash=hashed, rows=rows)


LABELLED_NLI = "pairs:nli_labels"
"""Name of the corpus of SNLI and MultiNLI with labels, the only pairs that can be fetched without filling in a form."""
CORPUS_NEEDS = {
    "wiki": "wiki/wiki_sentences.txt.gz; give --data DIR or --train-file FILE, or cse data get wiki1m",
    "documents": "wiki/wiki_docs_2048.jsonl.gz; give --data DIR, or --train-file FILE and train.corpus=file",
    "nli": "nli/*.csv; give --data DIR or --train-file FILE, or cse data get nli",
    "file": "a file; give --train-file FILE",
}
"""Corpus name -> the file that it needs and the ways to get it, for messages."""


def _require(corpus: str, path: Path | None) -> Path:
    if path is None:
        raise ConfigError([f"missing data: train.corpus={corpus} needs {CORPUS_NEEDS[corpus]}"])
    if not path.is_file():
        raise ConfigError(
            [f"missing data: train.corpus={corpus} reads {path}, which is not a file; needs {CORPUS_NEEDS[corpus]}"]
        )
    return path


def _open_pairs(corpus: str, paths: DataPaths) -> Source:
    """Opens one of the labelled sets at --data DIR/pairs/NAME.csv (SimCSE's choice of labelled data)."""
    name = f"{corpus.removeprefix('pairs:')}.csv"
    if paths.pairs is None or not (paths.pairs / name).is_file():
        fetched = f", or cse data get {name.removesuffix('.csv')}" if corpus == LABELLED_NLI else ""
        lacks = f"missing data: train.corpus={corpus} needs pairs/{name}; give --data DIR that has it{fetched}"
        raise ConfigError([lacks])
    return file_source(corpus, paths.pairs / name)


def _open_target(corpus: str, paths: DataPaths) -> Source:
    """Opens the texts of an evaluation set as a corpus; each pair is a row of two columns."""
    name = corpus.removeprefix("target:")
    files = target_files(name, paths.senteval)
    content_hash = join_hash("target", name, *map(file_hash, files))
    return Source(corpus, PAIR_COLUMNS[:2], content_hash, lambda: target_rows(name, files))


def _open_generated() -> Source:
    sentences = generated.sentences(GENERATED_SENTENCES, GENERATED_TEXT_SEED)
    return Source("generated", ("text",), texts_hash(sentences), lambda: ((s,) for s in sentences))
