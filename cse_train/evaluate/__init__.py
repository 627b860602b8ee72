"""Evaluation of sentence embeddings: models, evaluation sets, suites and scores, each score with its protocol."""

__all__ = [
    "baselines",
    "correlation",
    "dev",
    "embed_file",
    "embedding",
    "exported_folders",
    "judgements",
    "metric_names",
    "models",
    "pairs",
    "run_suites",
    "score",
    "suites",
    "tasks",
    "user_sets",
    "vectors",
]
