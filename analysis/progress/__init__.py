"""How far sweeps are, read from the ledger alone."""

__all__ = ["follower", "pages", "plain", "rows", "sweeps"]
