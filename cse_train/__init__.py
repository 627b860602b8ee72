"""One run: torch and transformers, without Ray.

Its own modules are what every room stands on: fields and files, ranks, random streams and exact arithmetic.
"""

__all__ = [
    "data_paths",
    "distributed",
    "fields",
    "files",
    "numerics",
    "random_streams",
    "reading",
    "soundness",
    "user_files",
]
