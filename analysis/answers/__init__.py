"""A space's runs, from the ledger to a table."""

__all__ = [
    "baselines",
    "build",
    "coverage",
    "explain",
    "imported",
    "lookup",
    "models",
    "paper_scale",
    "reproduction",
    "selection",
    "study",
]
