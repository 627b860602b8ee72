"""Corpora, tokens, and edits of sentences."""
