"""Training text: corpora, token stores, and the edits of sentences that make second views."""

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
