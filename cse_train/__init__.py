"""One run: torch and transformers, without Ray.

Its own modules are what every room stands on: fields and files, what a run gives, ranks, random streams and exact
arithmetic.
"""

__all__ = [
    "data_paths",
    "distributed",
    "fields",
    "files",
    "numerics",
    "random_streams",
    "reading",
    "results",
    "soundness",
    "user_files",
]
