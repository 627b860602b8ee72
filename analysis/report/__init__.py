"""Report on a study as one HTML page that works offline."""

__all__ = ["facts", "report"]
