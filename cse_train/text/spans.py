"""DeCLUTR's spans: anchors skewed towards long lengths, and positives near each of them (paper 3.1).

All positions are token indices of one document without its special tokens; a span is [start, end). Shape suffixes: A
anchors, P positives of each anchor, 2 = start and end.
"""

from dataclasses import dataclass, replace

import numpy as np

STRATEGIES = ("both", "adjacent", "subsuming")
"""Places of positives: anywhere that overlaps or touches the anchor, next to the anchor, or inside it."""
ANCHOR_BETA = (4, 2)
"""Parameters of the beta distribution of anchor lengths, skewed towards long ones."""
POSITIVE_BETA = (2, 4)
"""Parameters of the beta distribution of positive lengths, skewed towards short ones."""


@dataclass(frozen=True)
class SpanRule:
    """Number and length of the spans that are drawn from a document."""

    anchors: int = 2
    positives: int = 2
    min_length: int = 32
    max_length: int = 512
    strategy: str = "both"

    @property
    def tokens_needed(self) -> int:
        """Length in tokens of the shortest document that is accepted (released contrastive_utils.py:48-52)."""
        return 2 * self.anchors * self.max_length

    def adapted(self, tokens: int) -> "SpanRule":
        """Returns the rule with `max_length` lowered to what a short document allows, tokens // (2 * anchors)."""
        return replace(self, max_length=min(self.max_length, tokens // (2 * self.anchors)))


def sample_spans(tokens: int, rule: SpanRule, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draws anchors [A, 2] and positives [A, P, 2] from a document of `tokens` tokens, in the order of drawing.

    Source: released contrastive_utils.py:10-141. An anchor lies within one cell of a grid of `max_length` tokens, and
    no two anchors of a document lie in neighbouring cells. Raises ValueError for a document that is too short.
    """
    assert rule.strategy in STRATEGIES and 1 <= rule.min_length <= rule.max_length, rule
    if tokens < rule.tokens_needed:
        raise ValueError(f"spans: tokens={tokens} is fewer than 2 * anchors * max_length={rule.tokens_needed}")
    anchors = np.empty((rule.anchors, 2), dtype=np.int64)
    positives = np.empty((rule.anchors, rule.positives, 2), dtype=np.int64)
    cells = list(range(0, tokens - rule.max_length + 1, rule.max_length))
    for a in range(rule.anchors):
        cell = _take_cell(cells, rule.anchors - a, rng)
        length = _length(ANCHOR_BETA, rule.min_length, rule.max_length, rng)
        start = int(rng.integers(cell, cell + rule.max_length - length, endpoint=True))
        anchors[a] = start, start + length
        for p in range(rule.positives):
            positives[a, p] = _positive(start, start + length, tokens, rule, rng)
    return anchors, positives


def _take_cell(cells: list[int], wanted: int, rng: np.random.Generator) -> int:
    """Removes a random cell and its two neighbours from the list and returns it; takes an end cell when few are left.

    2 * wanted - 1 cells suffice for `wanted` anchors: an end takes two of them, the middle three.
    """
    few = len(cells) // wanted < wanted
    index = int(rng.integers(2)) * (len(cells) - 1) if few else int(rng.integers(len(cells)))
    cell = cells[index]
    del cells[max(0, index - 1) : index + 2]
    return cell


def _length(beta: tuple[float, float], low: int, high: int, rng: np.random.Generator) -> int:
    return int(rng.beta(*beta) * (high - low) + low)


def _positive(start: int, end: int, tokens: int, rule: SpanRule, rng: np.random.Generator) -> tuple[int, int]:
    """Draws one positive of the anchor [start, end) and returns its own [start, end)."""
    longest = end - start if rule.strategy == "subsuming" else rule.max_length
    length = _length(POSITIVE_BETA, rule.min_length, longest, rng)
    if rule.strategy == "adjacent":
        # Before or after the anchor, by a coin where both fit; the grid leaves a whole cell on a side. The released
        # code does not let a positive begin at token 0, and fails where that is the only place.
        places = [place for place in (start - length, end) if 0 <= place <= tokens - length]
        first = places[int(rng.integers(len(places)))]
    elif rule.strategy == "subsuming":
        first = int(rng.integers(start, end - length, endpoint=True))
    else:
        first = int(rng.integers(max(0, start - length), min(end, tokens - length), endpoint=True))
    return first, first + length
