"""Where the rows of a corpus are read: files, SNLI, evaluation sets, the hub, or made up."""

__all__ = ["delimited", "files", "generated", "hub", "lines", "survey", "tables", "user_text"]
