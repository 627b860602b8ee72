"""Checkpoints as folders for transformers and sentence-transformers."""

__all__ = ["export", "hub"]
