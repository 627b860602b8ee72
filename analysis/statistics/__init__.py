"""Statistics on plain numbers: means, intervals, agreement of orders, importance of axes, selection."""

__all__ = [
    "agreement",
    "basics",
    "collapse",
    "contrasts",
    "importance",
    "item_error",
    "leave_one_out",
    "looks",
    "needed",
    "selection",
    "spearman_bootstrap",
    "surface",
]
