"""Means, intervals, agreement, importance, selection: arithmetic on plain numbers."""

__all__ = [
    "agreement",
    "basics",
    "collapse",
    "contrasts",
    "differences",
    "importance",
    "leave_one_out",
    "looks",
    "needed",
    "selection",
    "spearman_bootstrap",
    "surface",
]
