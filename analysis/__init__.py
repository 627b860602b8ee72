"""From the ledger to the page; imports neither torch nor Ray."""

__all__ = ()
