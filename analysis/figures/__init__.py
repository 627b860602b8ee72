"""Plots of tables and studies."""

__all__ = ["axes", "canvas", "embeddings", "runs", "table"]
