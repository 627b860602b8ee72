"""Signs, colours and plurals of verdicts. Every command prints these words, so the module imports nothing."""

GLYPHS = {
    "same direction": "✓", "one seed could give it": "≈", "tie": "=", "undecided": "?",
    "opposite direction": "✗", "different": "✗", "no signal": "∅", "not run": "·", "reference": "○",
    "better": "✓", "worse": "✗", "breaks": "‼",
}  # fmt: skip
"""Verdict -> its sign, which needs no colour, in the order in which verdicts are counted."""
TONES = {
    "same direction": "good", "one seed could give it": "near", "tie": "near", "undecided": "open",
    "opposite direction": "bad", "different": "bad", "no signal": "grey", "not run": "open", "better": "good",
    "worse": "bad", "breaks": "bad",
}  # fmt: skip
"""Verdict -> meaning of its colour."""
COUNTED = {"no signal": "without signal", "one seed could give it": "that one seed could give"}
"""Verdict -> its words after a number of values."""


def name_several(word: str, number: int) -> str:
    """Returns a verdict's word after the number of its values: `tie` after 1, `ties` after 2."""
    if word in COUNTED:
        return COUNTED[word]
    return "ties" if word == "tie" and number != 1 else word


def count_word(word: str, number: int) -> str:
    """Returns a verdict with the number of its values: `2 ties`, `5 without signal`."""
    return f"{number:,} {name_several(word, number)}"


def sign_word(word: str) -> str:
    """Returns a verdict's word after its sign."""
    return f"{GLYPHS[word]} {word}" if word in GLYPHS else word
