"""Evaluation of sentence embeddings: models, evaluation sets, suites and scores, each score with its protocol."""

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
