"""What a corpus holds, counted in one pass before anything trains, and the rows that may be left out of it."""

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cse_train.text.corpora.files import LABELLED_COLUMNS, Row, Source

MIDDLE_AND_MOST = (0.5, 0.99)
"""Shares of the texts whose most words are told."""


@dataclass(frozen=True)
class Survey:
    """Counts of a corpus before anything is left out."""

    rows: int
    empty: int
    """Rows of which some text has no word."""
    first_empty: int
    """The first of them, counted from 1; 0 for none."""
    duplicates: int
    """Rows that equal an earlier one, empty ones apart."""
    words: tuple[int, int, int]
    """Most words of a text among the shortest half, among the shortest 99 %, and of all; without empty rows."""


def survey_source(source: Source) -> Survey:
    """One pass over the rows, 8 bytes of memory for each. Raises ConfigError as the rows do."""
    rows = empty = first_empty = 0
    hashes, lengths = array("q"), Counter[int]()
    for rows, row in enumerate(source.rows(), 1):
        counts = [len(text.split()) for text in _texts(row, source.columns)]
        if all(counts):
            hashes.append(hash(row))
            for count in counts:
                lengths[count] += 1
        else:
            empty, first_empty = empty + 1, first_empty or rows
    duplicates = len(hashes) - len(np.unique(np.frombuffer(hashes, dtype=np.int64)))
    return Survey(rows, empty, first_empty, duplicates, _most_words(lengths))


def _most_words(lengths: Counter[int]) -> tuple[int, int, int]:
    if not lengths:
        return 0, 0, 0
    sizes = sorted(lengths)
    upto = np.cumsum([lengths[size] for size in sizes])
    half, most = (sizes[int(np.searchsorted(upto, part * upto[-1]))] for part in MIDDLE_AND_MOST)
    return half, most, sizes[-1]


def leave_out_empty(source: Source) -> Iterator[Row]:
    """The rows of which each text has a word."""
    return (row for row in source.rows() if all(map(str.split, _texts(row, source.columns))))


def leave_out_duplicates(source: Source) -> Iterator[Row]:
    """Each row once, where it first stands; 16 bytes of each are remembered."""
    seen = set[bytes]()
    for row in source.rows():
        joined = "\0".join(f"{len(text)} {text}" for text in row).encode("utf8", "surrogatepass")
        digest = hashlib.blake2b(joined, digest_size=16).digest()
        if digest not in seen:
            seen.add(digest)
            yield row


def _texts(row: Row, columns: tuple[str, ...]) -> Row:
    """A row without its label."""
    return row[:-1] if columns == LABELLED_COLUMNS else row
