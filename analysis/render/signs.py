"""A verdict's sign, its colour and its plural; on its own, since every command prints words and few need numbers."""

GLYPHS = {
    "reproduced": "✓", "same direction": "✓", "within seed noise": "≈", "tie": "=", "undecided": "?",
    "opposite direction": "✗", "different": "✗", "no signal": "∅", "not run": "·", "reference": "○",
    "better": "✓", "worse": "✗",
}  # fmt: skip
"""A verdict's sign, which needs no colour; in the order in which verdicts are counted."""
TONES = {
    "reproduced": "good", "same direction": "good", "within seed noise": "near", "tie": "near", "undecided": "open",
    "opposite direction": "bad", "different": "bad", "no signal": "grey", "not run": "open", "better": "good",
    "worse": "bad",
}  # fmt: skip
"""What a verdict's colour says."""


def name_several(word: str, number: int) -> str:
    """A verdict behind the number of its values: `tie` behind 1, `ties` behind 2."""
    if word == "no signal":
        return "without signal"
    return "ties" if word == "tie" and number != 1 else word


def count_word(word: str, number: int) -> str:
    """A verdict with the number of its values: `2 ties`, `5 without signal`."""
    return f"{number:,} {name_several(word, number)}"


def sign_word(word: str) -> str:
    """A verdict behind its sign."""
    return f"{GLYPHS[word]} {word}" if word in GLYPHS else word
