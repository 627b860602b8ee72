"""The commands as functions: those that train or plan, and those that read or write results."""

__all__ = ["answers", "notebook"]
