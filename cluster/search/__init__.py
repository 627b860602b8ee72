"""Who proposes the next cell of a search."""

__all__ = ["budget", "feed", "optuna_mirror", "search", "source"]
