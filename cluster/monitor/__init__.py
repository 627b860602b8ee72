"""A running sweep, seen: progress lines, metrics, the dashboard."""

__all__ = ["exporter", "progress", "tally"]
