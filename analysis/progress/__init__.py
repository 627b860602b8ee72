"""Progress of sweeps, read from the ledger alone."""

__all__ = ["follower", "pages", "plain", "rows", "sweeps"]
