"""A table as Markdown, LaTeX, CSV, HTML, JSON or plain text."""
