"""Progress of sweeps, read from the ledger alone."""

__all__ = ["rows", "sweeps"]
