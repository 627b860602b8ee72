"""Plots of tables and studies with matplotlib."""

__all__ = ["canvas", "study", "table"]
