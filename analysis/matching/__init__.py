"""Finds the runs of a ledger that belong to the cells of a space, and groups them by data and code."""

__all__ = ["data_sets", "match"]
