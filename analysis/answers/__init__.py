"""Answers questions about a space or sweep from the ledger: tables, explanations, reproductions, selections."""

__all__ = [
    "baselines",
    "build",
    "bundle_records",
    "coverage",
    "explain",
    "imported",
    "lookup",
    "models",
    "paper_scale",
    "picks",
    "power",
    "selection",
    "study",
]
