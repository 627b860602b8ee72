"""Commands that read or write results, as functions."""

__all__ = ("answers",)
