"""Counts of a corpus's rows, taken in one pass before training, and filters for empty and duplicate rows."""

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cse_train.fields import ConfigError
from cse_train.text.corpora.delimited import is_number
from cse_train.text.corpora.files import LABELLED_COLUMNS, NLI_LABELS, NO_LABEL, Row, Source

MIDDLE_AND_MOST = (0.5, 0.99)
"""Shares of the texts, shortest first, whose greatest number of words a survey reports."""


@dataclass(frozen=True)
class Survey:
    """Counts of a corpus's rows and words, before any row is left out."""

    rows: int
    empty: int
    """Number of rows with at least one text that has no word."""
    first_empty: int
    """Number, from 1, of the first row with an empty text; 0 for none."""
    duplicates: int
    """Number of rows that equal an earlier row; rows with an empty text do not count."""
    words: tuple[int, int, int]
    """Most words of a text among the shortest half, among the shortest 99 %, and of all; without empty rows."""


def survey_source(source: Source) -> Survey:
    """Counts a corpus in one pass, with 8 bytes of memory for each row. Raises ConfigError as the rows do, and for a
    column that has numbers or labels in place of texts."""
    rows = empty = first_empty = 0
    hashes, lengths = array("q"), Counter[int]()
    coded: Sequence[int] = range(len(source.columns) - (source.columns == LABELLED_COLUMNS))
    codes = dict[int, str]()
    for rows, row in enumerate(source.rows(), 1):
        counts = [len(text.split()) for text in _texts(row, source.columns)]
        if coded:
            coded = [place for place in coded if _is_code(row[place].strip())]
            codes = {place: codes.get(place) or row[place].strip() for place in coded}
        if all(counts):
            # Python seeds the hash of strings anew in each process: these are compared within this pass only.
            hashes.append(hash(row))
            for count in counts:
                lengths[count] += 1
        else:
            empty, first_empty = empty + 1, first_empty or rows
    duplicates = len(hashes) - len(np.unique(np.frombuffer(hashes, dtype=np.int64)))
    if shown := next((f"{source.columns[place]}={text[:40]}" for place, text in codes.items() if text), None):
        line = f"no texts: train.corpus={source.name} has numbers or labels alone as {shown}"
        raise ConfigError([f"{line}; name the columns of texts, as columns: {{sent0: NAME, sent1: NAME}}"])
    return Survey(rows, empty, first_empty, duplicates, _most_words(lengths))


def _is_code(text: str) -> bool:
    """Returns whether a value gives no sign of a column of texts: empty, a number, or a label of NLI."""
    return not text or is_number(text) or text.lower() in (*NLI_LABELS, NO_LABEL)


def _most_words(lengths: Counter[int]) -> tuple[int, int, int]:
    """Returns the most words at the shares MIDDLE_AND_MOST, and of all; `lengths`: words of a text -> texts."""
    if not lengths:
        return 0, 0, 0
    sizes = sorted(lengths)
    upto = np.cumsum([lengths[size] for size in sizes])
    half, most = (sizes[int(np.searchsorted(upto, part * upto[-1]))] for part in MIDDLE_AND_MOST)
    return half, most, sizes[-1]


def leave_out_empty(source: Source) -> Iterator[Row]:
    """Yields the rows of a corpus in which each text has a word."""
    return (row for row in source.rows() if all(map(str.split, _texts(row, source.columns))))


def leave_out_duplicates(source: Source) -> Iterator[Row]:
    """Yields each distinct row of a corpus once, at its first place; 16 bytes per row are kept in memory."""
    seen = set[bytes]()
    for row in source.rows():
        # With its length before each text, two different rows never join to one string.
        joined = "\0".join(f"{len(text)} {text}" for text in row).encode("utf8", "surrogatepass")
        digest = hashlib.blake2b(joined, digest_size=16).digest()
        if digest not in seen:
            seen.add(digest)
            yield row


def _texts(row: Row, columns: tuple[str, ...]) -> Row:
    """Returns a row without its label, if its columns have one."""
    return row[:-1] if columns == LABELLED_COLUMNS else row
