"""Runs sweeps: from a resolved space to trained, scored and recorded runs."""

__all__ = [
    "ablation",
    "held_out",
    "request",
    "run",
    "tables",
    "tracking",
    "untrained",
]
