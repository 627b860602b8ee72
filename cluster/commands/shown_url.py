"""A ledger's address as commands print it."""

from analysis.shown_url import shown_url

__all__ = ["shown_url"]
