"""From a space to a finished sweep."""

__all__ = [
    "ablation",
    "baselines",
    "evaluated",
    "finished_tables",
    "held_out",
    "looks",
    "request",
    "retrain",
    "run",
    "score_run",
    "tracking",
    "undecided",
]
