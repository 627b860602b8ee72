"""A table as Markdown, LaTeX, CSV, HTML, JSON or plain text."""

__all__ = ["formats", "grid", "markup", "signs", "templates", "verdicts"]
