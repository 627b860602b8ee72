"""A verdict's sign, its colour and its plural; on its own, since every command prints words and few need numbers."""

GLYPHS = {
    "reproduced": "✓", "same direction": "✓", "within seed noise": "≈", "tie": "=", "undecided": "?",
    "opposite direction": "✗", "different": "✗", "not run": "·", "reference": "○", "better": "✓", "worse": "✗",
}  # fmt: skip
"""A verdict's sign, which needs no colour; in the order in which verdicts are counted."""
TONES = {
    "reproduced": "good", "same direction": "good", "within seed noise": "near", "tie": "near", "undecided": "open",
    "opposite direction": "bad", "different": "bad", "not run": "open", "better": "good", "worse": "bad",
}  # fmt: skip
"""What a verdict's colour says."""
PLURALS = {"tie": "ties"}


def signed(word: str) -> str:
    """A verdict behind its sign."""
    return f"{GLYPHS[word]} {word}" if word in GLYPHS else word
