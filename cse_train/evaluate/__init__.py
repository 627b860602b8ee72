"""Scores of embeddings, each with the protocol behind it."""
