"""Trains and evaluates one run with torch and transformers; nothing in this package imports Ray.

The top-level modules are shared by all subpackages: configuration fields, files, results, ranks, random streams and
exact arithmetic.
"""

__all__ = [
    "data_paths",
    "distributed",
    "fields",
    "files",
    "losses",
    "numerics",
    "random_streams",
    "reading",
    "results",
    "soundness",
    "user_files",
]
