"""Who proposes the next cell of a search."""

__all__ = ["budget", "feed", "limits", "optuna_mirror", "search", "source"]
