"""Which runs of a ledger are the runs of a space's cells, and on which data and by which code they were made."""

__all__ = ["data_sets", "match"]
