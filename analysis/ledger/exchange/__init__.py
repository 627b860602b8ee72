"""A ledger's rows as plain records that another ledger can take over."""

__all__ = ["columns", "merge"]
