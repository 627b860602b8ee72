"""Shows a running sweep: progress lines on the terminal, Prometheus metrics and a Grafana dashboard."""

__all__ = ["exporter", "metrics", "progress"]
