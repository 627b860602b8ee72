"""`cse dashboard`: the live page of a ledger's sweeps, and its server, which only this machine can reach."""

__all__ = ()
