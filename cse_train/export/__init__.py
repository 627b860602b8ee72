"""Checkpoints as folders for transformers and sentence-transformers."""
