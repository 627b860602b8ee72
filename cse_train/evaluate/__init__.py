"""Scores of embeddings, each with the protocol behind it."""

__all__ = [
    "baselines",
    "correlation",
    "dev",
    "embed_file",
    "embedding",
    "metric_names",
    "models",
    "pairs",
    "protocol",
    "run_suites",
    "score",
    "sts",
    "suites",
    "transfer",
    "user_sets",
]
