"""Where training text comes from. A source is opened cheaply: its hash is known before its rows are read."""

import csv
import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, TextIO, TypeVar

from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError, nearest
from cse_train.text import generated
from cse_train.text.target_texts import target_files, target_rows

Row = tuple[str, ...]
Text = TypeVar("Text", str, Row)
CORPORA = (
    *("wiki", "documents", "nli", "snli", "pairs:NAME", "target:NAME", "generated", "file"),
    "hf:NAME[:SPLIT[:COLUMN]]",
)
"""What `train.corpus` may be."""
PAIR_COLUMNS = ("sent0", "sent1", "hard_neg")
"""Column names of pairs and triplets, by position (SimCSE train.py:386-398)."""
LABELLED_COLUMNS = ("sent0", "sent1", "label")
"""Column names of premise, hypothesis and one of NLI_LABELS; a header says so by calling its third column `label`."""
NLI_LABELS = ("entailment", "neutral", "contradiction")
NO_LABEL = "-"
"""What SNLI writes where its annotators do not agree; such a pair is left out, as the task does."""
GENERATED_SENTENCES = 24_000
GENERATED_SEED = 0
CHUNK_CHARACTERS = 1_000_000


@dataclass(frozen=True)
class Source:
    """A corpus: `rows()` starts a new pass over it, in file order, one string per column."""

    name: str
    columns: tuple[str, ...]
    content_hash: str
    """Hash of the text and of how it is read; never of where it lies."""
    rows: Callable[[], Iterator[Row]]


def open_source(corpus: str, paths: DataPaths) -> Source:
    """The source that `train.corpus` names. Raises ConfigError (one line) when it is unknown, missing or unreadable."""
    if corpus.startswith("hf:"):
        return _hub(corpus)
    if corpus.startswith("pairs:"):
        return _named_pairs(corpus, paths)
    if corpus.startswith("target:"):
        return _target(corpus, paths)
    openers = {
        "wiki": lambda: _file("wiki", _require("wiki", paths.wiki)),
        "documents": lambda: _file("documents", _require("documents", paths.documents)),
        "nli": lambda: _file("nli", _require("nli", paths.nli)),
        "snli": lambda: _snli(paths),
        "file": lambda: _file("file", _require("file", paths.train_file)),
        "generated": _generated,
    }
    if corpus not in openers:
        hint = nearest(corpus, CORPORA)
        raise ConfigError([f"unknown corpus: train.corpus={corpus}; {hint}"])
    return openers[corpus]()


def rows_of(corpus: str, paths: DataPaths) -> int:
    """Rows of the corpus that `train.corpus` names, remembered by its content. ConfigError as `open_source`."""
    source = open_source(corpus, paths)
    if source.content_hash not in _ROWS:
        _ROWS[source.content_hash] = sum(1 for _ in source.rows())
    return _ROWS[source.content_hash]


_ROWS: dict[str, int] = {}


def lower_cased(source: Source) -> Source:
    """The source's text by `str.lower`."""
    hashed = _hash("lower", source.content_hash)
    return replace(source, content_hash=hashed, rows=lambda: (tuple(map(str.lower, row)) for row in source.rows()))


def file_hash(path: Path) -> str:
    """sha256 of a file's bytes, remembered as long as its size and modification time stay."""
    seen = path.stat()
    return _file_hash(path, seen.st_size, seen.st_mtime_ns)


@lru_cache(maxsize=64)
def _file_hash(path: Path, _size: int, _mtime_ns: int) -> str:
    with path.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


NEEDS = {
    "wiki": "wiki/wiki_sentences.txt.gz; give --data DIR or --train-file FILE",
    "documents": "wiki/wiki_docs_2048.jsonl.gz; give --data DIR, or --train-file FILE and train.corpus=file",
    "nli": "nli/*.csv; give --data DIR or --train-file FILE",
    "file": "a file; give --train-file FILE",
}


def _require(corpus: str, path: Path | None) -> Path:
    if path is None:
        raise ConfigError([f"missing data: train.corpus={corpus} needs {NEEDS[corpus]}"])
    if not path.is_file():
        raise ConfigError(
            [f"missing data: train.corpus={corpus} reads {path}, which is not a file; needs {NEEDS[corpus]}"]
        )
    return path


def _file(corpus: str, path: Path) -> Source:
    """Plain text is one column; .csv and .tsv have a header and one to three columns, read by position.

    .jsonl has one JSON object a line, whose `text` is the one column.
    """
    suffix = Path(path.name.removesuffix(".gz")).suffix
    delimiter = {".csv": ",", ".tsv": "\t"}.get(suffix)
    digest = file_hash(path)
    if suffix == ".jsonl":
        return Source(corpus, ("text",), _hash("jsonl", digest), lambda: _json_rows(path))
    if delimiter is None:
        return Source(corpus, ("text",), _hash("text", digest), lambda: _text_rows(path))
    columns = _csv_columns(path, delimiter)
    kind = f"csv{delimiter}{','.join(columns)}"
    return Source(corpus, columns, _hash(kind, digest), lambda: _csv_rows(path, delimiter, columns))


def _named_pairs(corpus: str, paths: DataPaths) -> Source:
    """One of many labelled sets, --data DIR/pairs/NAME.csv (SimCSE's choice of labelled data)."""
    name = f"{corpus.removeprefix('pairs:')}.csv"
    if paths.pairs is None or not (paths.pairs / name).is_file():
        raise ConfigError([f"missing data: train.corpus={corpus} needs pairs/{name}; give --data DIR that has it"])
    return _file(corpus, paths.pairs / name)


def _target(corpus: str, paths: DataPaths) -> Source:
    """The texts of an evaluation set, its pairs as two columns."""
    name = corpus.removeprefix("target:")
    files = target_files(name, paths.senteval)
    content_hash = _hash("target", name, *map(file_hash, files))
    return Source(corpus, PAIR_COLUMNS[:2], content_hash, lambda: target_rows(name, files))


def _snli(paths: DataPaths) -> Source:
    """SNLI as SentEval lays it out, a file each for premises, hypotheses and labels: its training split.

    Where the folder has dev and test alone, these two: no suite of ours evaluates on SNLI, DeCLUTR's averages do.
    """
    folder = None if paths.senteval is None else paths.senteval / "SNLI"
    there = {s for s in ("train", "dev", "test") if folder and all((folder / f"{f}.{s}").is_file() for f in SNLI_FILES)}
    splits = [split for split in ("train", "dev", "test") if split in (there & {"train"} or there)]
    if folder is None or not splits:
        wanted = ", ".join(f"{file}.train" for file in SNLI_FILES)
        raise ConfigError([f"missing data: train.corpus=snli needs SNLI/{wanted} of SentEval; give --senteval DIR"])
    files = [[folder / f"{file}.{split}" for file in SNLI_FILES] for split in splits]
    digest = _hash("snli", *(file_hash(path) for split in files for path in split))
    return Source("snli", LABELLED_COLUMNS, digest, lambda: (row for split in files for row in _snli_rows(split)))


SNLI_FILES = ("s1", "s2", "labels")


def _snli_rows(files: list[Path]) -> Iterator[Row]:
    columns = [[line.strip() for line in _lines(path)] for path in files]
    if len({len(column) for column in columns}) > 1:
        counts = ", ".join(f"{path.name} {len(column)}" for path, column in zip(files, columns, strict=True))
        raise ConfigError([f"lines do not match: {files[0].parent} has {counts}; fetch it again"])
    for number, row in enumerate(zip(*columns, strict=True), 1):
        if _labelled(row[2], files[2], number):
            yield row


def _lines(path: Path) -> Iterator[str]:
    with open_text(path) as lines:
        yield from lines


def _labelled(label: str, path: Path, line: int) -> bool:
    """Whether a pair has a label; ConfigError for what is none."""
    if label not in (*NLI_LABELS, NO_LABEL):
        reason = f"line {line} has label={label}"
        raise ConfigError([f"wrong row: {path} {reason}; give {', '.join(NLI_LABELS)}, or {NO_LABEL} for none"])
    return label != NO_LABEL


def _generated() -> Source:
    sentences = generated.sentences(GENERATED_SENTENCES, GENERATED_SEED)
    return Source("generated", ("text",), texts_hash(sentences), lambda: ((s,) for s in sentences))


def texts_hash(texts: Iterable[str]) -> str:
    """Hash of strings in order; two different lists never run together."""
    digest = hashlib.sha256()
    for text in texts:
        encoded = text.encode("utf8", "surrogatepass")
        digest.update(len(encoded).to_bytes(4, "big") + encoded)
    return digest.hexdigest()


def _hash(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """The file's text; what can be wrong with its bytes becomes one line for the user."""
    opened: Any = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf8", newline="") as lines:
            yield lines
    except UnicodeDecodeError as error:
        raise ConfigError([f"not UTF-8: {path} ({error.reason}); convert it, for example with iconv"]) from error
    except (EOFError, gzip.BadGzipFile) as error:
        raise ConfigError([f"truncated data: {path} ({error}); fetch it again"]) from error


def chunks(rows: Iterable[Text], most: int) -> Iterator[list[Text]]:
    """Lists of up to `most` texts, or rows of texts, and of about CHUNK_CHARACTERS characters."""
    chunk: list[Text] = []
    characters = 0
    for row in rows:
        chunk.append(row)
        characters += sum(map(len, row))
        if len(chunk) == most or characters >= CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _text_rows(path: Path) -> Iterator[Row]:
    with open_text(path) as lines:
        for line in lines:
            if text := line.strip():
                yield (text,)


def _json_rows(path: Path) -> Iterator[Row]:
    """A text keeps its words and loses its line breaks, as plain text has none."""
    with open_text(path) as lines:
        for number, line in enumerate(lines, 1):
            text = _text_field(line)
            if text is None:
                reason = f"line {number} is not a JSON object with words in its text field"
                raise ConfigError([f"wrong row: {path} {reason}; correct or remove the line"])
            yield (text,)


def _text_field(line: str) -> str | None:
    try:
        text = json.loads(line)["text"]
        return " ".join(text.split()) or None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _csv_columns(path: Path, delimiter: str) -> tuple[str, ...]:
    with open_text(path) as lines:
        header = next(csv.reader(lines, delimiter=delimiter), [])
    if not 1 <= len(header) <= 3:
        raise ConfigError(
            [f"wrong header: {path} has {len(header)} columns; give 1, 2 or 3 ({','.join(PAIR_COLUMNS)})"]
        )
    if header[2:] == ["label"]:
        return LABELLED_COLUMNS
    return ("text",) if len(header) == 1 else PAIR_COLUMNS[: len(header)]


def _csv_rows(path: Path, delimiter: str, columns: tuple[str, ...]) -> Iterator[Row]:
    """Absent and empty fields become one blank, as SimCSE's None -> " " (train.py:412-426)."""
    width, labelled = len(columns), columns == LABELLED_COLUMNS
    with open_text(path) as lines:
        reader = csv.reader(lines, delimiter=delimiter)
        for fields in islice(reader, 1, None):
            if len(fields) > width:
                widths = f"line {reader.line_num} has {len(fields)} fields, the header {width}"
                raise ConfigError([f"wrong row: {path} {widths}; quote fields that hold the delimiter"])
            row = tuple(field or " " for field in (*fields, *[""] * (width - len(fields))))
            if fields and (not labelled or _labelled(row[-1], path, reader.line_num)):
                yield row


def _hub(corpus: str) -> Source:
    """A Hugging Face data set or a local folder of one, hashed by its text."""
    name, split, column = (*corpus.removeprefix("hf:").split(":"), "", "")[:3]
    table = load_hub_split(name, split or "train", f"train.corpus={corpus}")
    names = _hub_columns(table, column, corpus)
    columns = ("text",) if len(names) == 1 else names

    def rows() -> Iterator[Row]:
        for row in table.select_columns(list(names)):
            fields = tuple(row[c] or " " for c in names)
            if len(fields) > 1 or fields[0].strip():
                yield fields

    return Source(corpus, columns, _hash("hub", *columns, texts_hash(t for row in rows() for t in row)), rows)


def load_hub_split(name: str, split: str, setting: str) -> Any:
    """One split of a hub data set; `setting` is the `key=value` that the one-line ConfigError names."""
    import datasets  # a second to import, and rarely needed

    try:
        return datasets.load_dataset(name, split=split)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:160]
        line = f"unreadable data set: {setting}, split {split} ({reason}); check the name, the split and HF_HUB_OFFLINE"
        raise ConfigError([line]) from error


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
