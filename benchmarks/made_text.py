"""English words in no order, where no real text is at hand: lines whose lengths are those of Wikipedia's sentences.

The words are the whole ones of the shipped vocabulary, so that each is one token, drawn by Zipf's law in the order of
the vocabulary. Of 5,406 Wikipedia sentences, cut by that vocabulary, the median has 32 tokens and the quartiles 23 and
44: a log-normal distribution of this spread has the same 5% and 95% quantiles, 15 and 70.
"""

import json
from functools import cache
from pathlib import Path

import numpy as np

VOCABULARY = Path(__file__).resolve().parents[1] / "cse_train" / "weights" / "tokenizer" / "tokenizer.json"
MEDIAN, SPREAD = 30, 0.48
"""Words of a line beside the two special tokens, and the standard deviation of their logarithm."""
FLATTENED = 2.7
"""Added to a word's rank in Zipf's law (Mandelbrot)."""


@cache
def vocabulary() -> tuple[str, ...]:
    """The whole words of the shipped vocabulary, in its order."""
    pieces = json.loads(VOCABULARY.read_text(encoding="utf8"))["model"]["vocab"]
    return tuple(sorted((word for word in pieces if word.isalpha() and word.isascii()), key=pieces.get))


def lines(count: int, seed: int = 0) -> list[str]:
    """Returns `count` lines of random words, at least one word each."""
    rng = np.random.default_rng(seed)
    entries = np.array(vocabulary())
    weights = 1 / (np.arange(len(entries)) + 1 + FLATTENED)
    lengths = np.maximum(1, np.rint(rng.lognormal(np.log(MEDIAN), SPREAD, count))).astype(int)
    drawn = rng.choice(entries, lengths.sum(), p=weights / weights.sum())
    return [" ".join(words) for words in np.split(drawn, np.cumsum(lengths)[:-1])]


def written(file: Path, count: int, seed: int = 0) -> Path:
    """Writes `lines(count, seed)` into a file and returns its path."""
    file.write_text("\n".join(lines(count, seed)) + "\n", encoding="utf8")
    return file
