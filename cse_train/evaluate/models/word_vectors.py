"""Averages of word vectors out of a text file, as GloVe and fastText publish them: a word and its numbers on a line.

Shape suffixes: N texts, D numbers of a vector.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cse_train.evaluate.models.text_model import MAX_LENGTH, TextModel, require_texts
from cse_train.fields import ConfigError
from cse_train.text.corpora.files import file_hash

SUFFIXES = (".txt", ".vec")
HASH_DIGITS = 12


@dataclass(frozen=True, kw_only=True)
class WordVectors(TextModel):
    """The mean of the vectors of a text's words (SentEval, examples/bow.py; DeCLUTR 4.2).

    A word is what stands between blanks, as SentEval's texts are tokenised: as it is, else in lower case. Unknown words
    are left out; a text without a known word is 0.
    """

    file: Path
    size: int
    places: dict[bytes, tuple[int, int]]
    """Word -> number of its line, from 1, and where in the file the line begins."""
    vectors: dict[bytes, np.ndarray] = field(default_factory=dict)
    """What was read so far: a file of 5 GB stays where it is."""

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """As `TextModel.embed`. Raises ConfigError for a line with something that is no number."""
        require_texts(texts)
        keys_of = [[key for word in text.split()[: self.max_length] if (key := self._key(word))] for text in texts]
        self._read({key for keys in keys_of for key in keys} - self.vectors.keys())
        means_ND = np.zeros((len(texts), self.size), dtype=np.float32)
        for row, keys in enumerate(keys_of):
            if keys:
                means_ND[row] = np.mean([self.vectors[key] for key in keys], axis=0)
        return means_ND

    def _key(self, word: str) -> bytes | None:
        forms = (word.encode("utf8", "surrogatepass"), word.lower().encode("utf8", "surrogatepass"))
        return next((form for form in forms if form in self.places), None)

    def _read(self, words: set[bytes]) -> None:
        with self.file.open("rb") as lines:
            for word in sorted(words, key=self.places.__getitem__):
                number, start = self.places[word]
                lines.seek(start)
                numbers = lines.readline().split()[-self.size :]
                try:
                    self.vectors[word] = np.array(numbers, dtype=np.float32)
                except ValueError as error:
                    line = f"not a number: {self.file}, line {number} ({word.decode('utf8', 'replace')})"
                    raise ConfigError([f"{line}: {error}; correct the line, or fetch the file again"]) from error
                if not np.isfinite(self.vectors[word]).all():
                    raise ConfigError([f"not finite: {self.file}, line {number}; correct the line"])


def open_word_vectors(file: Path, max_length: int | None = None) -> WordVectors:
    """A file of word vectors; fastText's first line, how many and how long, is none of them.

    The file is read once for its hash and once for where its words stand. Words may hold blanks, as some of GloVe 840B
    do (". . ."). Raises ConfigError, one line: packed, empty, a line with another number of values, fewer words than
    the first line says.
    """
    if file.suffix not in SUFFIXES:
        wrong = f"not word vectors: model={file}; give a text file of {' or '.join(SUFFIXES)}"
        raise ConfigError([f"{wrong}, a word and its numbers on a line, unpacked"])
    places: dict[bytes, tuple[int, int]] = {}
    size, wanted, start, number = 0, None, 0, 0
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            fields = line.split()
            if number == 1 and len(fields) == 2 and all(part.isdigit() for part in fields):
                wanted, size = (int(part) for part in fields)
            else:
                size = size or len(fields) - 1
                places.setdefault(_word(fields, size, f"{file}, line {number}"), (number, start))
            start += len(line)
    if not places:
        raise ConfigError([f"no word: model={file} is empty; fetch the file again"])
    count = number - (wanted is not None)
    if wanted is not None and count != wanted:
        raise ConfigError([f"truncated data: {file}: {wanted} words expected, {count} found; fetch it again"])
    content_hash = file_hash(file)
    return WordVectors(
        name=str(file),
        pooler=f"mean of {file.name}, sha256 {content_hash[:HASH_DIGITS]}",
        max_length=max_length or MAX_LENGTH,
        content_hash=content_hash,
        file=file,
        size=size,
        places=places,
    )


def _word(fields: Sequence[bytes], size: int, where: str) -> bytes:
    """What stands in front of the last `size` fields; a number at its end would be one value too many."""
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
