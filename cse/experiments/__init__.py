"""Runs sweeps: from a resolved space to trained, scored and recorded runs."""

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
