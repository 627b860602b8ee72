"""Dev and test sets in files of the user's own: what kind of set a file holds, and how each kind is read."""

__all__ = ["fingerprint", "judgements", "kept_queries", "kinds", "three_files"]
