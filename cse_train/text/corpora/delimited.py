"""Reader of CSV and TSV, with one rule for every file that people bring: corpora, sets, other tools' exports.

Fields lie between commas in .csv and between tabs in .tsv; where the header of a .csv has no comma, the delimiter is
the semicolon or the tab that it has. Blanks before a field are no part of it, so quotes after `, ` enclose a field as
quotes after `,` do.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from cse_train.fields import ConfigError
from cse_train.reading import reading
from cse_train.text.corpora.lines import LINE_CHARACTERS, open_text
from cse_train.user_files import ending

DELIMITERS = {".csv": ",;\t", ".tsv": "\t"}
"""File ending -> delimiters that such a file may have, the usual one first."""
NAME_WORDS, NAME_CHARACTERS = 4, 60
"""Most words and most characters that the name of a column has; a longer first line is taken for a row of data."""
ROWS_COMPARED = 1000
"""Rows with which a first line is compared to tell a header from data."""
SENTENCE_END = re.compile(r"\s.*[.!?]$|[\u3002\uff01\uff1f]$", re.DOTALL)
"""Pattern of a sentence: several words that end in `.`, `!` or `?`, or any text that ends in a full-width one."""
csv.field_size_limit(LINE_CHARACTERS)  # of the whole process; Python's own 131,072 refuses long documents


def is_delimited(path: Path) -> bool:
    """Returns whether a file's ending is one of CSV or TSV, also packed as .gz."""
    return ending(path.name) in DELIMITERS


def read_delimited(path: Path, *, quotes: bool = True) -> Iterator[tuple[int, list[str]]]:
    """Yields (number of the last line, fields) of each row of a CSV or TSV, header first; an empty line has no field.

    With `quotes` False, quotation marks are text. Raises ConfigError, one line, for a quote that is never closed, which
    takes the rows after it into its field, and for text behind a closing quote.
    """
    advice = "close the quotes, or give `quotes: false` where quotes are text"
    with open_text(path) as lines, reading("wrong row", path, advice, (csv.Error,)):
        first = next(lines, "")
        dialect: Any = {"strict": True} if quotes else {"quoting": csv.QUOTE_NONE}
        dialect |= {"skipinitialspace": True, "delimiter": _delimiter(path, first, quotes)}
        rows = csv.reader(chain([first], lines), **dialect)
        try:
            yield from ((rows.line_num, fields) for fields in rows)
        except csv.Error as error:
            if "unexpected end" not in str(error):
                raise
            raise ConfigError([f"wrong row: {path} ends within quotes; {advice}"]) from error


def header_of(names: list[str], path: Path) -> list[str]:
    """Returns the column names of a first row, without blanks around them. ConfigError for none, and for duplicates."""
    header = [name.strip() for name in names]
    twice = sorted({name for name in header if header.count(name) > 1})
    if not any(header):
        raise ConfigError([f"empty file: {path} has no header; its first line names the columns"])
    if twice:
        raise ConfigError([f"wrong header: {path} has {twice[0] or 'a column without a name'} twice; name each once"])
    return header


def require_header(names: Sequence[str], rows: Iterable[Sequence[str | None]], path: Path) -> None:
    """Raises ConfigError where the first line of a table looks like a row of data: one of its names is a number, a
    sentence, a value that its column has again, or several words that all occur in its column."""
    columns = [set[str]() for _ in names]
    for fields in islice(rows, ROWS_COMPARED):
        for column, field in zip(columns, fields, strict=False):
            column.add((field or "").strip())
    if first := next((name for name, column in zip(names, columns, strict=True) if _is_value(name, column)), None):
        line = f"no header: {path} begins with a row, such as {first[:40]}"
        count = "its column" if len(names) == 1 else f"its {len(names)} columns"
        raise ConfigError([f"{line}; put a line with the names of {count} in front"])


def is_number(text: str) -> bool:
    """Returns whether Python's `float` reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_value(name: str, column: set[str]) -> bool:
    """Returns whether a name in a first line is rather a value; `column` holds the values under it."""
    words = name.lower().split()
    if not words:
        return False
    if len(words) > NAME_WORDS or len(name) > NAME_CHARACTERS or SENTENCE_END.search(name) or is_number(name):
        return True
    return name in column or (
        len(words) > 1 and set(words) <= {word for text in column for word in text.lower().split()}
    )


def _delimiter(path: Path, header: str, quotes: bool) -> str:
    """Returns the first delimiter for the file's ending that divides the header; the usual one where none does."""
    quoting: Any = {} if quotes else {"quoting": csv.QUOTE_NONE}
    possible = DELIMITERS[ending(path.name)]
    parting = (d for d in possible if len(next(csv.reader([header], delimiter=d, **quoting), [])) > 1)
    return next(parting, possible[0])
