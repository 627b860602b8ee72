"""Renders a table as Markdown, LaTeX, CSV, HTML, JSON or plain text."""

__all__ = ["best_of", "documents", "formats", "grid", "markup", "signs", "templates", "verdicts"]
