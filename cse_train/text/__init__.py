"""Training text: corpora, token stores, and the edits of sentences that make second views."""

__all__ = [
    "augment",
    "corpora",
    "file_corpora",
    "files",
    "generated",
    "masking",
    "spans",
    "synonyms",
    "tables",
    "templates",
    "tokens",
    "vector_files",
]
