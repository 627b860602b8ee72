"""Reads rows of a ledger as plain records, and merges such records into another ledger."""

__all__ = ["columns", "merge", "records", "unsound"]
