"""Plots of tables and studies with matplotlib."""

__all__ = ["axes", "canvas", "embeddings", "runs", "table"]
