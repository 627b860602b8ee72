"""CSV and TSV, by one rule for every file that people bring: corpora, sets, other tools' exports.

Fields lie between commas or tabs, as the ending says; where the header of a .csv has no comma it is the semicolon or
the tab that it has. Blanks before a field are no part of it, so quotes after `, ` enclose it as those after `,` do.
"""

import csv
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from cse_train.fields import ConfigError
from cse_train.reading import reading
from cse_train.text.corpora.lines import LINE_CHARACTERS, open_text
from cse_train.user_files import ending

DELIMITERS = {".csv": ",;\t", ".tsv": "\t"}
"""Ending -> what may part its fields, the usual one first."""
csv.field_size_limit(LINE_CHARACTERS)  # of the whole process; Python's own 131,072 refuses long documents


def is_delimited(path: Path) -> bool:
    """Whether a file's ending is that of such a table."""
    return ending(path.name) in DELIMITERS


def read_delimited(path: Path, *, quotes: bool = True) -> Iterator[tuple[int, list[str]]]:
    """Number of the last line and the fields of each row, the header first; an empty line has no fields.

    Without `quotes` these are text. ConfigError, one line: a header that is empty or names a column twice, a quote that
    is never closed, which takes what follows into its field, or text behind a closing one.
    """
    advice = "close the quotes, or give `quotes: false` where quotes are text"
    with open_text(path) as lines, reading("wrong row", path, advice, (csv.Error,)):
        first = next(lines, "")
        how: Any = {"strict": True} if quotes else {"quoting": csv.QUOTE_NONE}
        how |= {"skipinitialspace": True, "delimiter": _delimiter(path, first, quotes)}
        rows = csv.reader(chain([first], lines), **how)
        try:
            yield from ((rows.line_num, fields) for fields in rows)
        except csv.Error as error:
            if "unexpected end" not in str(error):
                raise
            raise ConfigError([f"wrong row: {path} ends within quotes; {advice}"]) from error


def header_of(names: list[str], path: Path) -> list[str]:
    """The names of a first row, without blanks around them. ConfigError for none, and for one that stands twice."""
    header = [name.strip() for name in names]
    twice = sorted({name for name in header if header.count(name) > 1})
    if not any(header):
        raise ConfigError([f"empty file: {path} has no header; its first line names the columns"])
    if twice:
        raise ConfigError([f"wrong header: {path} has {twice[0] or 'a column without a name'} twice; name each once"])
    return header


def _delimiter(path: Path, header: str, quotes: bool) -> str:
    """The first of those that a file of this ending may have which parts its header; the usual one where none does."""
    how: Any = {} if quotes else {"quoting": csv.QUOTE_NONE}
    possible = DELIMITERS[ending(path.name)]
    parting = (d for d in possible if len(next(csv.reader([header], delimiter=d, **how), [])) > 1)
    return next(parting, possible[0])
