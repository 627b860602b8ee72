"""Results as a file: what a ledger has of some sweeps, for another ledger or a reader (`cse bundle`)."""

__all__ = ()
