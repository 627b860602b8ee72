"""Masked language models that edit sentences."""
