"""The live page of a ledger's sweeps: one HTML file with its style and script, and a server for this machine alone."""

__all__ = ()
