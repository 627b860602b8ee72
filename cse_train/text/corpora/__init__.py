"""Readers of training corpora: local files, SNLI, evaluation sets, the Hugging Face hub, and generated text."""

__all__ = ["delimited", "files", "generated", "hub", "lines", "survey", "tables", "user_text"]
