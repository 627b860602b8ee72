"""Averages of word vectors from a text file, as GloVe and fastText publish them: a word and its numbers on a line.

Shape suffixes: N texts, D numbers of a vector.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cse_train.data_paths import DataPaths
from cse_train.evaluate.models.text_model import MAX_LENGTH, TextModel, require_texts
from cse_train.fields import ConfigError
from cse_train.text.files import file_hash
from cse_train.text.vector_files import SUFFIXES, Places, read_places, read_vectors, source_of

HASH_DIGITS = 12
"""Digits of the file's hash in the pooler's name."""


@dataclass(frozen=True, kw_only=True)
class WordVectorAverage(TextModel):
    """Model that embeds a text as the mean of its words' vectors (SentEval, examples/bow.py; DeCLUTR 4.2).

    A word is what stands between blanks, as SentEval's texts are tokenised: as it is, else in lower case. Unknown words
    are left out; a text without a known word is 0.
    """

    file: Path
    size: int
    places: Places
    vectors: dict[bytes, np.ndarray] = field(default_factory=dict)
    """Vectors read from the file so far: a file may have 5 GB, so only needed words are loaded."""

    def embed(self, texts: Sequence[str], prompt: str | None = None) -> np.ndarray:
        """Embeds texts as `TextModel.embed`. Raises ConfigError for a line with something that is no number."""
        require_texts(texts)
        keys_of = [[key for word in text.split()[: self.max_length] if (key := self._key(word))] for text in texts]
        unread = {key for keys in keys_of for key in keys} - self.vectors.keys()
        self.vectors.update(read_vectors(self.file, self.size, {key: self.places[key] for key in unread}))
        means_ND = np.zeros((len(texts), self.size), dtype=np.float32)
        for row, keys in enumerate(keys_of):
            if keys:
                means_ND[row] = np.mean([self.vectors[key] for key in keys], axis=0)
        return means_ND

    def _key(self, word: str) -> bytes | None:
        forms = (word.encode("utf8", "surrogatepass"), word.lower().encode("utf8", "surrogatepass"))
        return next((form for form in forms if form in self.places), None)


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


def open_word_vectors(file: Path, max_length: int | None = None) -> WordVectorAverage:
    """Opens a file of word vectors, reading it once for its hash and once for the places of its words.

    Raises ConfigError, one line, for a packed file and as `read_places`.
    """
    if file.suffix not in SUFFIXES:
        wrong = f"not word vectors: model={file}; give a text file of {' or '.join(SUFFIXES)}"
        raise ConfigError([f"{wrong}, a word and its numbers on a line, unpacked"])
    size, places = read_places(file)
    content_hash = file_hash(file)
    return WordVectorAverage(
        name=str(file),
        pooler=f"mean of {file.name}, sha256 {content_hash[:HASH_DIGITS]}",
        max_length=max_length or MAX_LENGTH,
        content_hash=content_hash,
        file=file,
        size=size,
        places=places,
    )
