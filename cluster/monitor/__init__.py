"""A running sweep, seen: progress lines, metrics, the dashboard."""
