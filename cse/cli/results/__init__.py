"""Commands that read the ledger."""

__all__ = ()
