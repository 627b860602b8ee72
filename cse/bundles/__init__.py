"""`cse bundle`: writes a ledger's results of some sweeps as one file, for another ledger or reader."""

__all__ = ()
