"""Stop words, and synonyms from WordNet's data files (the wndb format): words that share a synset."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from cse_train.fields import ConfigError
from cse_train.text.files import file_hash

DEBIAN_FOLDER = Path("/usr/share/wordnet")
"""Folder in which Debian's package `wordnet-base` puts WordNet's files."""
FILES = ("data.noun", "data.verb", "data.adj", "data.adv")
ADJECTIVE_MARKER = re.compile(r"\((a|p|ip)\)$")
"""Marker behind an adjective in data.adj that says where it may be used: (a), (p) or (ip)."""
WORD_AND_PUNCTUATION = re.compile(r"^(\W*)(.*?)(\W*)$", re.DOTALL)
"""Divides a word into punctuation before, letters, and punctuation after."""
STOP_WORDS = (
    "a an the and or but if as of at by for in into on to from with about over under then than so "
    "this that these those it its he she they we you i his her their our your is are was were be been "
    "has have had do does did will would can could should may not no only also very just there here"
).split()


class Synonyms:
    """Finds the synonyms of a tokenised word in WordNet, as token ids.

    A word is looked up as it stands, in lower case, without the punctuation around it: "cars," is not "car". Every
    other word or phrase of every synset that holds it is a synonym, whatever its part of speech, each counted once.
    Stop words have none: WordNet knows "a" as a vitamin and "in" as a metal.
    """

    def __init__(self, folder: Path, tokenizer: Any) -> None:
        self.entries = read_wordnet(folder)
        self.backend = tokenizer.backend_tokenizer
        self._known: dict[bytes, list[np.ndarray]] = {}

    def __call__(self, pieces: np.ndarray) -> list[np.ndarray]:
        """Returns the ids of each synonym of a word's ids, with the word's punctuation and capital; empty for none."""
        key = pieces.tobytes()
        if key not in self._known:
            self._known[key] = self._alternatives(self.backend.decode(pieces.tolist()))
        return self._known[key]

    def _alternatives(self, text: str) -> list[np.ndarray]:
        # Byte-level tokenizers decode a word in the middle of a sentence with the blank before it.
        blank = " " if text[:1].isspace() else ""
        around = WORD_AND_PUNCTUATION.match("".join(text.split()))
        assert around is not None
        before, word, after = around.groups()
        synonyms = () if word.lower() in STOP_WORDS else self.entries.get(word.lower(), ())
        written = [other[:1].upper() + other[1:] if word[:1].isupper() else other for other in synonyms]
        texts = [f"{blank}{before}{synonym}{after}" for synonym in written]
        return [np.array(self.backend.encode(text, add_special_tokens=False).ids) for text in texts]


def wordnet_folder(path: str | None) -> Path:
    """Returns WordNet's folder: `method.synonyms`, or Debian's for None. ConfigError where its files are missing."""
    folder = DEBIAN_FOLDER if path is None else Path(path)
    absent = [name for name in FILES if not (folder.is_absolute() and (folder / name).is_file())]
    if absent:
        line = f"no WordNet: method.synonyms={'null' if path is None else path}; {folder} has no {', '.join(absent)}"
        raise ConfigError([f"{line}; apt install wordnet-base, or give the folder that holds {', '.join(FILES)}"])
    return folder


def wordnet_hash(folder: Path) -> str:
    """Returns the hash of WordNet's four files in a folder."""
    return hashlib.sha256("".join(file_hash(folder / name) for name in FILES).encode()).hexdigest()


@lru_cache(maxsize=1)
def read_wordnet(folder: Path) -> dict[str, tuple[str, ...]]:
    """Reads lower-case word -> its synonyms, sorted; words without any are left out. ConfigError for other files."""
    groups: dict[str, set[str]] = defaultdict(set)
    for name in FILES:
        for synset in _synsets(folder / name):
            for word in synset:
                if " " not in word:
                    groups[word.lower()].update(synset)
    others = ((word, tuple(sorted(s for s in synset if s.lower() != word))) for word, synset in groups.items())
    return {word: synonyms for word, synonyms in others if synonyms}


def _synsets(path: Path) -> Iterator[list[str]]:
    """Yields the words of each line `offset lexfile type count (word lex_id)* ...` of a file; skips the licence."""
    with path.open(encoding="utf8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            if line.startswith("  "):
                continue
            fields = line.split()
            try:
                count = int(fields[3], 16)
                words = fields[4 : 4 + 2 * count : 2]
                if len(words) != count:
                    raise ValueError
            except (IndexError, ValueError) as error:
                problem = f"not a WordNet file: {path}, line {number}; give the files of WordNet 3"
                raise ConfigError([problem]) from error
            yield [ADJECTIVE_MARKER.sub("", word).replace("_", " ") for word in words]


def stop_word_ids(tokenizer: Any) -> list[np.ndarray]:
    """Returns the sub-word ids of each stop word, as they are after a blank."""
    backend = tokenizer.backend_tokenizer
    return [np.array(backend.encode(f" {word}", add_special_tokens=False).ids) for word in STOP_WORDS]
