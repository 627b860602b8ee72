"""Training corpora by name (`train.corpus`). Opening is cheap: the hash is known before the rows are read."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError, nearest
from cse_train.text import generated
from cse_train.text.file_corpora import (
    LABELLED_COLUMNS,
    PAIR_COLUMNS,
    TEXTS_ALONE,
    Source,
    file_source,
    read_label,
    user_source,
)
from cse_train.text.files import Row, file_hash, join_hash, open_text, texts_hash
from cse_train.text.tables import load_hub_split

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
        return _hub_source(corpus)
    if corpus.startswith("pairs:"):
        return _open_pairs(corpus, paths)
    if corpus.startswith("target:"):
        return _target_source(corpus, paths)
    files = {"wiki": paths.wiki, "documents": paths.documents, "nli": paths.nli, "file": paths.train_file}
    if corpus in files:
        path = files[corpus]
        if path is None or not path.is_file():
            reads = "" if path is None else f" reads {path}, which is not a file;"
            raise ConfigError([f"missing data: train.corpus={corpus}{reads} needs {CORPUS_NEEDS[corpus]}"])
        return file_source(corpus, path)
    if corpus == "snli":
        return _snli_source(paths)
    if corpus == "generated":
        texts = generated.sentences(GENERATED_SENTENCES, GENERATED_TEXT_SEED)
        return Source(corpus, ("text",), texts_hash(texts), lambda: ((text,) for text in texts))
    raise ConfigError([f"unknown corpus: train.corpus={corpus}; {nearest(corpus, CORPUS_NAMES)}"])


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


def _open_pairs(corpus: str, paths: DataPaths) -> Source:
    """Opens one of the labelled sets at --data DIR/pairs/NAME.csv (SimCSE's choice of labelled data)."""
    name = f"{corpus.removeprefix('pairs:')}.csv"
    if paths.pairs is None or not (paths.pairs / name).is_file():
        fetched = f", or cse data get {name.removesuffix('.csv')}" if corpus == LABELLED_NLI else ""
        lacks = f"missing data: train.corpus={corpus} needs pairs/{name}; give --data DIR that has it{fetched}"
        raise ConfigError([lacks])
    return file_source(corpus, paths.pairs / name)


def _hub_source(corpus: str) -> Source:
    """Opens the corpus `hf:NAME[:SPLIT[:COLUMN]]`, a hub data set or a local folder of one; its text is hashed."""
    name, split, column = (*corpus.removeprefix("hf:").split(":"), "", "")[:3]
    table = load_hub_split(name, split or "train", f"train.corpus={corpus}")
    names = _hub_columns(table, column, corpus)
    columns = ("text",) if len(names) == 1 else names

    def rows() -> Iterator[Row]:
        for row in table.select_columns(list(names)):
            fields = tuple(row[c] or " " for c in names)
            if len(fields) > 1 or fields[0].strip():
                yield fields

    return Source(corpus, columns, join_hash("hub", *columns, texts_hash(t for row in rows() for t in row)), rows)


def _hub_columns(table: Any, column: str, corpus: str) -> tuple[str, ...]:
    strings = [
        name for name, kind in table.features.items() if getattr(kind, "dtype", "") in ("string", "large_string")
    ]
    if column and column not in strings:
        raise ConfigError(
            [f"unknown column: train.corpus={corpus} has no text column {column}; {nearest(column, strings)}"]
        )
    if column:
        return (column,)
    if set(PAIR_COLUMNS[:2]) <= set(strings):
        return tuple(c for c in PAIR_COLUMNS if c in strings)
    if not strings:
        raise ConfigError([f"no text: train.corpus={corpus} has no text column; choose another data set"])
    return ("text",) if "text" in strings else (strings[0],)


SNLI_FILES = ("s1", "s2", "labels")
"""Names, without the split, of SNLI's files of premises, hypotheses and labels."""


def _snli_source(paths: DataPaths) -> Source:
    """Opens the training split of SNLI in SentEval's layout: a file each for premises, hypotheses and labels.

    A folder without the training split gives dev and test instead: no suite here evaluates on SNLI, although DeCLUTR's
    published averages include it.
    """
    folder = None if paths.senteval is None else paths.senteval / "SNLI"
    full = {s for s in ("train", "dev", "test") if folder and all((folder / f"{f}.{s}").is_file() for f in SNLI_FILES)}
    splits = [split for split in ("train", "dev", "test") if split in (full & {"train"} or full)]
    if folder is None or not splits:
        names = ", ".join(f"{file}.train" for file in SNLI_FILES)
        lacks = f"missing data: train.corpus=snli needs SNLI/{names} of SentEval"
        raise ConfigError([f"{lacks}; give --senteval DIR, or cse data get snli"])
    files = [[folder / f"{file}.{split}" for file in SNLI_FILES] for split in splits]
    digest = join_hash("snli", *(file_hash(path) for split in files for path in split))
    return Source("snli", LABELLED_COLUMNS, digest, lambda: (row for split in files for row in _snli_rows(split)))


def _snli_rows(files: list[Path]) -> Iterator[Row]:
    """Yields (premise, hypothesis, label) from three parallel files; pairs without a label are left out."""
    columns = []
    for path in files:
        with open_text(path) as lines:
            columns.append([line.strip() for line in lines])
    if len({len(column) for column in columns}) > 1:
        counts = ", ".join(f"{path.name} {len(column)}" for path, column in zip(files, columns, strict=True))
        raise ConfigError([f"lines do not match: {files[0].parent} has {counts}; fetch it again"])
    for number, row in enumerate(zip(*columns, strict=True), 1):
        if label := read_label(row[2], files[2], number):
            yield (*row[:2], label)


TARGET_SPLITS = {
    "sts_test": ("STS/STSBenchmark", ("sts-train.csv", "sts-dev.csv", "sts-test.csv"), (5, 6)),
    "sickr_test": ("SICK", ("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt"), (1, 2)),
}
"""Name of an evaluation set -> its folder in SentEval, its files, and the columns of its two texts."""
YEARS = ("sts12", "sts13", "sts14", "sts15", "sts16")
PAIR_HEADER = "pair_ID"
PAIRS_PREFIX, GRADES_PREFIX = "STS.input.", "STS.gs."


def _target_source(corpus: str, paths: DataPaths) -> Source:
    """Opens the texts of an evaluation set, without grades, as a corpus: "target" in BERT-flow and BERT-whitening.

    SentEval's files as published: STS12-16 are their scored pairs; STS-B and SICK-R are train, dev and test together
    (Li et al. 2020, released --use_full_for_training; Su et al. 2021, released eng/eval.py). Each pair is a row.
    ConfigError: unknown set or missing files, and in its rows a file that is not UTF-8.
    """
    name = corpus.removeprefix("target:")
    if name not in (*YEARS, *TARGET_SPLITS):
        hint = nearest(corpus, [f"target:{each}" for each in (*YEARS, *TARGET_SPLITS)])
        raise ConfigError([f"unknown corpus: train.corpus={corpus}; {hint}"])
    message = f"missing data: train.corpus={corpus} needs"
    if paths.senteval is None:
        raise ConfigError([f"{message} senteval/downstream; give --data DIR or --senteval DIR, or cse data get sts"])
    if name in YEARS:
        folder = paths.senteval / "STS" / f"{name.upper()}-en-test"
        subsets = sorted(file.name.removeprefix(PAIRS_PREFIX) for file in folder.glob(f"{PAIRS_PREFIX}*.txt"))
        files = [
            folder / f"{kind}{subset}" for subset in subsets or ["*.txt"] for kind in (PAIRS_PREFIX, GRADES_PREFIX)
        ]
        columns = (0, 1)
    else:
        place, splits, columns = TARGET_SPLITS[name]
        files = [paths.senteval / place / split for split in splits]
    if absent := [file for file in files if not file.is_file()]:
        raise ConfigError([f"{message} {absent[0]}; cse data get sts, or give --senteval DIR"])

    def rows() -> Iterator[Row]:
        for line in _scored_lines(files) if name in YEARS else chain.from_iterable(map(_lines, files)):
            fields = line.split("\t")
            if len(fields) > max(columns) and not line.startswith(PAIR_HEADER):  # a line cut short gives no pair
                yield tuple(" ".join(fields[column].split()) for column in columns)

    return Source(corpus, PAIR_COLUMNS[:2], join_hash("target", name, *map(file_hash, files)), rows)


def _scored_lines(files: Sequence[Path]) -> Iterator[str]:
    """Yields the lines of files of pairs that have a grade in the file of grades behind each of them."""
    for pairs, grades in zip(files[::2], files[1::2], strict=True):
        yield from (line for line, grade in zip(_lines(pairs), _lines(grades), strict=False) if grade.strip())


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf8").split("\n")
    except UnicodeDecodeError as error:
        raise ConfigError([f"not UTF-8: {file} ({error.reason}); fetch it again"]) from error
