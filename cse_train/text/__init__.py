"""Corpora, tokens, and edits of sentences."""

__all__ = [
    "augment",
    "cached_folder",
    "corpora",
    "edits",
    "masking",
    "sentences",
    "sources",
    "spans",
    "synonyms",
    "templates",
    "tokens",
    "vector_files",
    "words",
]
