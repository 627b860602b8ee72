"""Turns the results in a ledger into tables, statistics, figures and pages; imports neither torch nor Ray."""

__all__ = ()
